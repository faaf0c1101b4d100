"""A model's layers: what a file of them says, and how its layers run."""

from pathlib import Path

from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim import program
from streamsim.files import dump_toml, write_toml

ATTENTION, MLP = program.WorkloadKernel(duration_s=1e-3), program.WorkloadKernel(duration_s=2e-3, launches=3)
MODEL = program.Layers(
    (program.Layer(400_000_000, (ATTENTION, MLP), "block", 3), program.Layer(1 << 30, (ATTENTION,), "head"))
)
TOML = """
[[layers]]
name = "block"
weight_bytes = "400MB"
kernels = ["1ms", "2ms/3"]
repeats = 3

[[layers]]
name = "head"
weight_bytes = "1GiB"
kernels = [{ duration_s = "1ms" }]
"""


def test_a_file_says_what_the_value_says(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(TOML)
    write_toml(MODEL, tmp_path / "written.toml")
    assert all(program.read_layers(tmp_path / name) == MODEL for name in ("model.toml", "written.toml"))


names = st.text("ab.0 é", max_size=4).map(str.strip)
timed = st.builds(
    program.WorkloadKernel,
    duration_s=st.floats(1e-6, 1.0),
    launches=st.integers(1, 3),
    fill=st.none() | st.floats(0.1, 1.0),
    points=st.just(()) | st.just((program.Point(0.5, 1e-9),)),
)
layer = st.builds(
    program.Layer, st.integers(1, 1 << 39), st.lists(timed, min_size=1, max_size=3).map(tuple), names, st.integers(1, 3)
)


@st.composite
def models(draw: st.DrawFn) -> program.Layers:
    found = draw(
        st.lists(layer, min_size=1, max_size=4, unique_by=lambda one: one.name.partition(".")[0] or one.name or id(one))
    )
    return program.Layers(tuple(found), draw(st.integers(1, 5)), draw(st.sampled_from(("", "mine"))))


@examples(100)
@given(models())
def test_what_is_written_is_read_again(model: program.Layers) -> None:
    assert program.parse_layers(dump_toml(model)) == model
