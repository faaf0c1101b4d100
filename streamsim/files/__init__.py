"""Files as such: read up to a size, written whole or not at all; JSON and TOML with every fault explained."""

from streamsim.files.atomic_files import (
    check_writable,
    file_error,
    read_bytes,
    replacing,
    replacing_packed,
    write_bytes,
    write_text,
)
from streamsim.files.documents import (
    Parsers,
    dump_toml,
    explain_json,
    parse_toml,
    read_table,
    refuse_duplicates,
)
