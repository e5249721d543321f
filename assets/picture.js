// The tape as a drawing: the rounds as they stand at the playhead, with the page's own inks, signs, texts and words.

/** An <svg> node. `element` lends its inks. */
function pictureOf(R, element) {
  const style = getComputedStyle(element), ink = name => style.getPropertyValue("--" + name).trim();
  const INKS = { kept: "kept", guess: "kept", checking: "kept", rejected: "rejected", not_reached: "dead",
                 correction: "target", bonus: "target", plain: "target" };
  const MONO = ink("mono"), SANS = "system-ui, sans-serif", pen = document.createElement("canvas").getContext("2d");
  const LEAST = 720, GAP = 10, EDGE = 28, LINE = 28, FIRST = EDGE + 36;
  const clean = text => text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");   // XML
  const wide = (text, size, font = SANS, weight = 400) => {
    pen.font = `${weight} ${size}px ${font}`;
    return pen.measureText(text).width;
  };
  const write = (text, x, y, { size = 13, fill = ink("text"), font = SANS, ...more } = {}) =>
    svg("text", { x, y, fill, "font-size": size, "font-family": font, "xml:space": "preserve", ...more }, clean(text));
  const draw = (d, stroke, more = {}) => svg("path", { d, stroke, "stroke-width": 1.2, fill: "none", ...more });
  const rule = (x, y, width, stroke, more) => draw(`M${x} ${y}h${width}`, stroke, more);
  const hatched = (x, y, width) => svg("rect", { x: x - 4, y: y - 15, width: width + 8, height: 21, rx: 4, fill: "url(#hatch)" });

  /** A token's piece from x on: nodes and the width they take. */
  function piece(token, x, y, fill) {
    const nodes = [], from = x;
    for (const [text, kind] of parts(token)) {
      const [size, inset] = kind === "hex" ? [11, 3] : [13, 0], opacity = kind === "blank" ? 0.6 : 1;
      const width = kind === "space" ? 8 : wide(clean(text), size, MONO) + 2 * inset;
      const shown = kind === "space" || kind && !R.signs ? "none" : fill;                  // a space's sign is a line
      const fixed = kind !== "space" && { textLength: width - 2 * inset, lengthAdjust: "spacingAndGlyphs" };   // in any font
      nodes.push(write(text, x + inset, y, { size, fill: shown, font: MONO, opacity, ...fixed }));
      if (kind === "space" && R.signs) nodes.push(draw(`M${x + 1} ${y - 4}v4h6v-4`, fill, { opacity: 0.6 }));
      if (kind === "hex") nodes.push(draw(`M${x + 0.5} ${y - 11}h${width - 1}v14h${1 - width}z`, fill, { opacity: 0.6 }));
      x += width;
    }
    return { nodes, width: x - from };
  }

  /** The outcome's line, as on the page: under, through, double, hatched, dotted. */
  function lineOf(fate, x, y, width, colour) {
    if (fate === "kept") return [rule(x, y + 4, width, colour)];
    if (fate === "rejected") return [rule(x, y - 4, width, colour)];
    if (fate === "not_reached") return [];
    if (["guess", "checking"].includes(fate)) return [rule(x, y + 4, width, colour, { "stroke-dasharray": "1 3" })];
    return [rule(x, y + 3, width, colour), rule(x, y + 5.5, width, colour)];
  }

  function chip(index, slot, fate, x, y) {
    const round = R.rounds[index], colour = ink(INKS[fate]), glyph = GLYPHS[fate] ?? "", sign = 18;
    const { nodes, width } = piece(round.texts[tokenAt(round, slot)] ?? "", x + sign, y, colour);
    const hatch = fate === "not_reached" ? [hatched(x, y, width + sign)] : [], title = svg("title", {}, R.say("fate_" + fate));
    const node = svg("g.is-" + fate, { "data-round": index, "data-slot": slot }, title, ...hatch,
      write(glyph, x, y, { size: 12, fill: colour }), ...nodes, ...lineOf(fate, x + sign, y, width, colour));
    return { node, width: sign + width + GAP };
  }

  // -- what stands at the playhead
  const beat = R.beat(), rows = R.rounds.slice(0, beat ? beat.round + 1 : 0).map((round, index) => {
    const over = index < R.over(), fates = round.draft.map((_, slot) => over ? fateIn(round, slot) : fateOf(round, slot, beat));
    return [...fates.map((fate, slot) => [slot, fate]), ["own", over ? fateIn(round, "own") : "empty"]].filter(([, fate]) => fate !== "empty");
  });
  const guesses = Math.max(0, ...R.rounds.map(round => round.draft.length)), columns = [...Array(guesses).keys(), "own"];
  const least = (LEAST - FIRST - EDGE - 80) / columns.length;
  const needs = slot => rows.flatMap((row, index) =>
    row.filter(cell => cell[0] === slot).map(([, fate]) => chip(index, slot, fate, 0, 0).width));
  const widths = columns.map(slot => Math.max(56, least, ...needs(slot)));
  const starts = widths.map((_, i) => FIRST + sum(widths.slice(0, i))), times = FIRST + sum(widths) + GAP;
  const width = Math.ceil(Math.max(LEAST, times + 70 + EDGE)), room = width - 2 * EDGE;

  // -- above: what ran; below: what happened last, and what the signs mean
  function paragraph(text, y, size, fill, weight = 400) {
    const lines = [""];
    for (const word of text.match(/[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+/gu) ?? []) {
      const pieces = wide(word, size) > room ? [...word] : [word];
      for (const part of pieces)
        if (wide(lines.at(-1) + part, size, SANS, weight) > room) lines.push(part); else lines[lines.length - 1] += part;
    }
    const high = size * 1.5, nodes = lines.map((line, i) => write(line, EDGE, y + i * high, { size, fill, "font-weight": weight }));
    return { nodes, end: y + lines.length * high };
  }
  const words = node => node.textContent.replace(/\s+/g, " ").trim();
  const facts = [...element.querySelectorAll(".tape-badge, .tape-about span")].map(words).join(" · ");
  const prompt = (R.header.prompt?.text ?? "").replace(/\s+/g, " ").slice(0, 400);
  const asked = paragraph(`${R.say("asked")} ${prompt}`, EDGE + 14, 15, ink("text"), 600);
  const about = paragraph(facts, asked.end, 12, ink("soft")), top = about.end + 16;
  const lines = rows.map((row, index) => {
    const y = top + index * LINE + 18, last = index === beat.round && index >= R.over();
    const small = { size: 12, fill: ink("soft"), "text-anchor": "end" };
    return svg("g.round", {},
      ...last ? [svg("rect", { x: EDGE - 8, y: y - 19, width: room + 16, height: LINE, fill: ink("wash") })] : [],
      write(String(index + 1), EDGE + 20, y, small),
      ...row.map(([slot, fate]) => chip(index, slot, fate, starts[columns.indexOf(slot)], y).node),
      ...last ? [] : [write(milliseconds(elapsed(R.rounds[index])) + " ms", width - EDGE, y, small)]);
  });
  const said = paragraph(words(make("p", {}, ...sentenceOf(R, R.over() - 1))), top + rows.length * LINE + 36, 15, ink("text"));
  let x = EDGE, y = said.end + 14;
  const legend = ["kept", "rejected", "not_reached", "correction", "bonus"].map(fate => {
    const word = R.say("fate_" + fate), long = wide(word, 13), colour = ink(INKS[fate]);
    if (x + long + 50 > width - EDGE) { x = EDGE; y += 24; }
    const hatch = fate === "not_reached" ? [hatched(x, y, long + 18)] : [];
    const node = svg("g.legend", {}, ...hatch, write(GLYPHS[fate], x, y, { size: 12, fill: colour }),
      write(word, x + 18, y, { fill: colour }), ...lineOf(fate, x + 18, y, long, colour));
    x += long + 46;
    return node;
  });
  const height = Math.ceil(y + EDGE);
  const hatch = svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("path", { d: "M0 0v5", stroke: ink("dead"), "stroke-opacity": 0.45 }));
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, lang: R.language }, svg("defs", {}, hatch),
    svg("rect", { width, height, fill: ink("paper") }), ...asked.nodes, ...about.nodes, ...lines, ...said.nodes, ...legend);
}

const drawingOf = (R, element) => new XMLSerializer().serializeToString(pictureOf(R, element));

/** The same as points: twice as fine as the drawing, less where a canvas could not hold it. */
async function pointsOf(R, element) {
  const url = URL.createObjectURL(new Blob([drawingOf(R, element)], { type: "image/svg+xml" })), image = new Image();
  try {
    await new Promise((done, fail) => { image.onload = done; image.onerror = fail; image.src = url; });
    const scale = Math.min(2, 16000 / Math.max(image.width, image.height));
    const canvas = make("canvas", { width: Math.floor(image.width * scale), height: Math.floor(image.height * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => canvas.toBlob(blob => blob ? done(blob) : fail(), "image/png"));
  } finally { URL.revokeObjectURL(url); }
}
