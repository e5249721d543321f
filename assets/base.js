// What all views share: tokens as text, nodes, numbers as words. Text of models and users is only ever set as textContent.

const GLYPHS = { kept: "✓", rejected: "✗", not_reached: "○", pruned: "✂\uFE0E", correction: "↩\uFE0E", bonus: "★", plain: "", checking: "…", waiting: "…", guess: "?" };

// ---- tokens as text ----------------------------------------------------------------------------------------------

const BLANKS = { " ": "␠", "\u3000": "␠", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽" };
const hex = bytes => bytes.map(b => b.toString(16).toUpperCase().padStart(2, "0")).join(" ");

/** A token's piece as display parts: [text, kind] with kind "" | "space" (its sign is drawn by the style) | "blank" | "hex". */
function parts(piece) {
  if (Array.isArray(piece)) return [[hex(piece), "hex"]];
  if (piece === "") return [["∅", "blank"]];
  const found = [];
  for (const char of piece) {
    const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(char);
    const kind = BLANKS[char] === "␠" ? "space" : BLANKS[char] ? "blank" : hidden ? "hex" : "";
    const text = BLANKS[char] ?? (hidden ? "U+" + hex([char.codePointAt(0)]).padStart(4, "0") : char);
    const last = found.at(-1);
    if (last && last[1] === kind && !["hex", "space"].includes(kind)) last[0] += text; else found.push([text, kind]);
  }
  return found;
}

/** Turns pieces into running text: bytes wait until their character is whole, and only bytes that never form one stay hex. */
function joiner() {
  let open = [];
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const length = first => first < 0x80 ? 1 : first >> 5 === 6 ? 2 : first >> 4 === 14 ? 3 : first >> 3 === 30 ? 4 : 0;
  function settle(flush) {
    const out = [];
    while (open.length) {
      const need = length(open[0]);
      if (need > open.length && open.slice(1).every(b => b >> 6 === 2) && !flush) break;
      try {
        out.push([decoder.decode(Uint8Array.from(need ? open.slice(0, need) : [0xff])), ""]);
        open = open.slice(need);
      } catch { out.push([hex(open.splice(0, 1)), "hex"]); }
    }
    return out;
  }
  return {
    add(piece) {
      if (!Array.isArray(piece)) return [...settle(true), [piece, ""]];
      open.push(...piece);
      return settle(false);
    },
    end: () => settle(true),
  };
}

// ---- nodes and numbers -----------------------------------------------------------------------------------------------

const build = create => (tag, attributes = {}, ...children) => {
  const [name, ...classes] = tag.split(".");
  const node = create(name);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

/** make("div.name", {role: "row"}, child, ...) and the same for drawings - children are nodes or text. */
const make = build(name => document.createElement(name));
const svg = build(name => document.createElementNS("http://www.w3.org/2000/svg", name));

const calm = matchMedia("(prefers-reduced-motion: reduce)");    // readers who want nothing to move

/** Three decimals; two digits that count where those would not show them; "–" for what is not known. */
const probability = x => x == null ? "–" : x === 0 ? "0" : x < 1e-6 ? "<1e-6" : x < 0.001 ? x.toExponential(1) : x.toFixed(x < 0.01 ? 4 : 3);
const milliseconds = x => x < 10 ? x.toFixed(1) : x.toFixed(0);
const rate = x => x < 10 ? x.toFixed(2) : x.toFixed(1);
const percent = x => (x > 0 && 100 * x < 1 ? "<1" : (100 * x).toFixed(0)) + "\u00a0%";
const sum = list => list.reduce((a, b) => a + b, 0);
const elapsed = round => round.t_draft + round.t_target + round.t_verify + round.t_other;

/** Replaces {name} and {name|one|many} in a template by numbers or nodes: a list ready for append(). */
function fill(template, values) {
  const out = [];
  let last = 0;
  for (const match of template.matchAll(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g)) {
    const value = values[match[1]];
    out.push(template.slice(last, match.index));
    out.push(value instanceof Node ? value : make("b", {}, String(value)));
    if (match[2] !== undefined) out.push(" " + (Number(value) === 1 ? match[2] : match[3]));
    last = match.index + match[0].length;
  }
  out.push(template.slice(last));
  return out;
}

/**
 * Two laws as rows in one order: the likeliest tokens, whatever must be seen, and all others. `sides` has, per side, the
 * likeliest tokens, the chance of all others together, and one token's chance, known apart. null: among all others.
 */
function sharedRows(must, sides, rows = 7) {
  const known = {}, rest = {}, names = Object.keys(sides);
  for (const [side, { top, others, token, chance }] of Object.entries(sides)) {
    known[side] = new Map(top ?? []);
    rest[side] = top ? others ?? 0 : null;
    if (!top || chance == null || known[side].has(token)) continue;
    known[side].set(token, chance);
    rest[side] = Math.max(0, rest[side] - chance);
  }
  const whole = Object.fromEntries(names.map(side => [side, rest[side] != null && rest[side] < 5e-7]));
  const most = id => Math.max(...names.map(side => known[side].get(id) ?? 0));
  const ids = [...new Set([...must, ...names.flatMap(side => [...known[side].keys()])])].sort((a, b) => most(b) - most(a));
  const shown = ids.slice(0, rows);
  for (const id of must)
    if (!shown.includes(id)) shown.splice(shown.findLastIndex(other => !must.includes(other)), 1, id);
  for (const side of names)
    if (rest[side] != null) rest[side] += sum([...known[side]].filter(([id]) => !shown.includes(id)).map(pair => pair[1]));
  const value = (side, id) => known[side].get(id) ?? (whole[side] ? 0 : null);
  return { rows: shown.map(id => ({ id, ...Object.fromEntries(names.map(side => [side, value(side, id)])) })), rest };
}

/** 95 % interval of a share (Wilson 1927). */
function interval(hits, n) {
  const z = 1.96, p = hits / n, middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const half = z * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
