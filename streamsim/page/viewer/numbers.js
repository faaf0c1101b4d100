"use strict";
/* The viewer of a page, in the files numbers, timeline, chart, view, told, map and start. It reads the columns in #data,
 * draws time lines and a map on canvases, and answers the pointer and the keys. All text comes in by textContent: what a
 * file calls a kernel is shown and never run. */

// Numbers. Ticks are nanoseconds, whole numbers.

const unitOf = ticks => (ticks < 1e3 ? ["ns", 0] : ticks < 1e6 ? ["us", 3] : ticks < 1e9 ? ["ms", 6] : ["s", 9]);

// All digits of ticks: 1234500 is "1.2345 ms".
function exact(ticks) {
  const [unit, places] = unitOf(Math.abs(ticks));
  return `${ticks / 10 ** places} ${unit}`;
}

function bytes(count) {
  const power = Math.min(6, Math.floor(Math.log2(count || 1) / 10));
  return `${+(count / 1024 ** power).toPrecision(4)} ${power ? "KMGTPE"[power - 1] + "i" : ""}B`;
}

// The least of 1, 2 or 5 times a power of ten that is at least this and a tick.
function niceStep(least) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map(n => n * power).find(step => step >= least) ?? 10 * power;
}

// Columns

// The bytes of a text in base64, inflated.
async function inflated(text) {
  const packed = atob(text),
    raw = new Uint8Array(packed.length);
  for (let k = 0; k < raw.length; k++) raw[k] = packed.charCodeAt(k);
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Unpack columns of `length` whole numbers: base64, deflate, then seven bits a byte, the least first, signs folded.
async function unpack(text, length) {
  const raw = await inflated(text),
    columns = [];
  for (let at = 0; at < raw.length;) {
    const column = new Float64Array(length);
    for (let k = 0; k < length; k++) {
      let folded = 0,
        scale = 1,
        byte;
      do {
        byte = raw[at++];
        folded += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      column[k] = folded % 2 ? -(folded + 1) / 2 : folded / 2;
    }
    columns.push(column);
  }
  return columns;
}
