// The tape: what was asked and written, finished rounds as lines, the round in view as a stage of fixed slots, and one sentence
// about it. Nothing here changes size while a round plays.

function mountTape(R) {
  const { say, tell, write } = R;
  const { worded, speak } = speller(R);
  const badge = make("span.tape-badge"), about = make("div.tape-about"), head = make("header.tape-head", {}, badge, about);
  const asked = make("p.tape-prompt"), written = worded(make("div.tape-text", { role: "region", tabindex: "0" }), "text", "aria-label");
  const strip = make("div.tape-strip", { "aria-hidden": "true" }), shares = make("p.tape-shares");
  const history = make("div.tape-history", { role: "rowgroup" }), stage = make("div.tape-stage", { role: "row" });
  const grid = worded(make("div.tape-grid", { role: "grid" }, history, make("div.tape-now", { role: "rowgroup" }, stage)), "tape", "aria-label");
  const sentence = make("p.tape-sentence", { role: "status", "aria-live": "polite" });
  const stats = make("div.tape-stats"), definition = make("p.tape-definition", { id: "tape-definition" });
  const legend = make("ul.tape-legend");
  const number = make("span.tape-number", { role: "rowheader" }), clock = make("div.tape-clock", { role: "gridcell" });
  const slots = make("div.tape-slots", { role: "presentation" });
  stage.append(number, slots, clock);
  const node = make("div.tape-body", {},
    head,
    make("div.tape-top", {},
      make("div.tape-writing", {}, asked, written, strip, shares),
      make("div.tape-numbers", {}, stats, definition)),
    grid);

  let lines = [], spans = [], made = [], joined, seen = 0, times = [], asking = null, numbers = {}, home, entry, follow = true, reading = false;

  const tiles = ["per_pass", "accepted", "speed", "plain"].map(key => {
    const value = make("span.tape-value"), unit = worded(make("span.tape-unit"), "stat_" + key);
    const tile = make("button.tape-stat", { type: "button", "aria-describedby": "tape-definition" }, value, unit);
    for (const event of ["pointerenter", "focus", "click"]) tile.addEventListener(event, () => { asking = key; define(); });
    stats.append(tile);
    return { key, value, tile };
  });
  for (const fate of ["kept", "rejected", "not_reached", "correction", "bonus"])
    legend.append(make("li.is-" + fate, {}, make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]),
      worded(make("b"), "fate_" + fate), worded(make("span"), "legend_" + fate)));
  legend.append(make("li.is-chance", {}, make("span.tape-gauge", { "aria-hidden": "true" }, make("i.tape-bar"), make("i.tape-dot")),
    worded(make("span"), "legend_chance")));
  const signs = worded(make("button.tape-signs", { type: "button", "aria-pressed": "true" }, make("span", { "aria-hidden": "true" })), "legend_signs", "aria-label");
  for (const part of parts(" \n\t")) signs.firstChild.append(make("i." + part[1], {}, part[0]));
  signs.addEventListener("click", () => R.sign(!R.signs));
  legend.append(make("li.is-signs", {}, signs, worded(make("span"), "legend_signs")));

  // -- a new run, one more round
  function begin() {
    lines = []; spans = []; made = []; seen = 0; times = []; asking = null; home = undefined; follow = true; reading = false;
    joined = joiner();
    history.replaceChildren();
    written.replaceChildren();
    const places = 1 + Math.max(0, R.header.knobs?.k ?? 0);
    slots.replaceChildren(...Array.from({ length: places }, (_, i) => slotCell(i === places - 1 ? "own" : i)));
    node.style.setProperty("--places", places);
    node.dataset.wide = places > 6;
    introduce();
  }

  function add(round, index) {
    lines.push(lineOf(round, index));
    history.append(lines[index]);
    if (index) times.splice(times.findLastIndex(ms => ms < elapsed(round)) + 1, 0, elapsed(round));
    node.style.setProperty("--scale", times[Math.ceil(0.9 * times.length) - 1] ?? elapsed(round));   // few slow rounds may not fit
    const before = made.at(-1) ?? { all: 0, draft: 0 };        // tokens written so far, and those the drafter made
    made.push({ all: before.all + round.emit.length, draft: before.draft + keptEmits(round).length });
    spans.push(round.emit.map(emit => {
      const by = emit.maker === "draft" ? "draft" : "target";
      const slot = emit.maker === "draft" ? emit.slot : "own";
      const span = make("span.by-" + by, { "data-round": index, "data-slot": slot }, make("wbr"));   // lines break between tokens
      setDown(span, joined.add(round.texts[emit.token_id] ?? ""));
      span.hidden = true;
      written.append(span);                                    // only: what is written never moves
      return span;
    }));
    if (round.done) finishText();
  }

  /** Running text: real line breaks, each with its sign, so that its maker's ink is seen. */
  function setDown(span, pieces) {
    for (const [text, kind] of pieces) {
      if (kind) span.append(make("i." + kind, {}, text));
      else span.append(...text.split(/(?<=\n)/).flatMap(line =>
        line.endsWith("\n") ? [line.slice(0, -1), make("i.blank", { "aria-hidden": "true" }, BLANKS["\n"]), "\n"] : [line]));
    }
  }

  /** Bytes that never became a character are shown as what they are. */
  function finishText() {
    if (written.lastElementChild) setDown(written.lastElementChild, joined.end());
  }

  // -- drawing
  function draw() {
    const beat = R.beat(), round = R.round(), now = beat ? beat.round : 0;
    const [from, to] = [Math.min(seen, now), Math.min(Math.max(seen, now), R.rounds.length - 1)];
    for (let i = from; i <= to; i++) {                          // only what changes between two places of the playhead
      lines[i].hidden = i >= now;
      for (const span of spans[i]) span.hidden = !isWritten(span, i, beat);
    }
    seen = now;
    if (!reading) written.scrollTop = written.scrollHeight;
    if (follow) grid.scrollTop = grid.scrollHeight;
    drawStage(round, beat);
    drawNumbers();
    drawSentence();
    rove();
    mark();
  }
  let touched = -Infinity;                                      // only a reader's own scrolling stops the following
  for (const event of ["wheel", "touchmove", "pointerdown", "keydown"])                          // pressed on a token is no scrolling
    grid.addEventListener(event, ({ target }) => { if (event !== "pointerdown" || target === grid) touched = performance.now(); }, { passive: true });
  grid.addEventListener("scroll", () => { if (performance.now() - touched < 800) follow = atEnd(grid); }, { passive: true });
  written.addEventListener("scroll", () => { reading = !atEnd(written); }, { passive: true });
  function atEnd(box) { return box.scrollHeight - box.scrollTop - box.clientHeight < 12; }

  function slotCell(slot) {
    return make(slot === "own" ? "div.tape-cell.is-own" : "div.tape-cell", { role: "gridcell", "data-slot": slot, tabindex: "-1" },
      make("span.tape-token"),
      make("span.tape-fate", {}, make("span.tape-glyph", { "aria-hidden": "true" }), make("span.tape-word")),
      make("span.tape-gauge", { "aria-hidden": "true" }, make("i.tape-bar"), make("i.tape-dot")),
      make("span.tape-odds"));
  }

  function lineOf(round, index) {
    const places = 1 + Math.max(round.draft.length, R.header.knobs?.k ?? 0);
    const cells = Array.from({ length: places - 1 }, (_, slot) => chip(round, index, slot));
    const line = make("div.tape-line", { role: "row" },
      make("span.tape-number", { role: "rowheader" }, String(index + 1)),
      make("div.tape-slots", { role: "presentation" }, ...cells, chip(round, index, "own")),
      clockOf(round, make("div.tape-clock", { role: "gridcell" }), false));
    line.hidden = true;
    return line;
  }

  function chip(round, index, slot) {
    const token = tokenAt(round, slot), fate = fateIn(round, slot);
    if (slot === 0 && reads(round, index)) return make("div.tape-chip.is-reading", { role: "gridcell" }, say("slot_reads"));
    const cell = make("div.tape-chip.is-" + fate, { role: "gridcell", "data-slot": slot, tabindex: "-1" });
    if (token === null) return cell;
    cell.dataset.round = index;
    cell.setAttribute("aria-label", describe(index, slot, fate));
    cell.append(make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]), pieceNode(round, token));
    return cell;
  }

  /** The first round guesses nothing: its pass reads the prompt. */
  const reads = (round, index) => index === 0 && Boolean(round) && !round.draft.length;

  function drawStage(round, beat) {
    number.textContent = beat ? beat.round + 1 : "";
    stage.classList.toggle("is-checking", beat?.kind === "check");
    for (const cell of slots.children) {
      const slot = cell.dataset.slot === "own" ? "own" : Number(cell.dataset.slot);
      const fate = !round ? "empty" : slot !== "own" ? fateOf(round, slot, beat) : beat.kind === "final" ? fateIn(round, "own") : "empty";
      const key = [R.id, beat?.round, fate, R.language].join();
      if (cell.dataset.key !== key) drawCell(cell, round, beat, slot, fate, key);
    }
    if (!round) clock.replaceChildren();
    else if (clock.dataset.key !== [R.id, beat.round, R.language].join()) {
      clock.dataset.key = [R.id, beat.round, R.language].join();
      clockOf(round, clock, true);
    }
  }

  function drawCell(cell, round, beat, slot, fate, key) {
    cell.dataset.key = key;
    cell.className = "tape-cell is-" + fate + (slot === "own" ? " is-own" : "");
    const [token, verdict, gauge, odds] = cell.children, there = fate !== "empty" && tokenAt(round, slot) !== null;
    token.replaceChildren(...(there ? [pieceNode(round, tokenAt(round, slot))] : []));
    verdict.firstChild.textContent = there ? GLYPHS[fate] ?? "" : "";
    verdict.lastChild.textContent = there ? say("fate_" + fate) : slot === "own" ? say("slot_own")
      : reads(round, beat?.round) ? (slot ? "" : say("slot_reads"))
      : say(slot >= (round?.draft.length ?? Infinity) ? "slot_none" : "slot_guess");
    const judged = there && ["kept", "rejected"].includes(fate) ? round.verify[slot] : null;
    gauge.classList.toggle("is-off", !judged);
    gauge.style.setProperty("--chance", judged?.ratio ?? 0);
    gauge.style.setProperty("--draw", judged?.u ?? 0);
    gauge.classList.toggle("no-draw", judged?.u == null || R.header.rule === "match");
    odds.replaceChildren(...(judged ? fill(say(gauge.classList.contains("no-draw") ? "odds_chance" : "odds"), {
      chance: probability(judged.ratio), draw: probability(judged.u) }) : []));
    if (there) cell.dataset.round = beat.round; else delete cell.dataset.round;
    cell.setAttribute("aria-label", there ? describe(beat.round, slot, fate) : say("slot_empty"));
  }

  function describe(index, slot, fate) {
    const round = R.rounds[index], text = parts(round.texts[tokenAt(round, slot)] ?? "").map(part => part[0]).join("");
    const where = slot === "own" ? say("slot_own") : `${say("slot_guess")} ${slot + 1}`;
    return `${tell("round", { round: index + 1 })}, ${where}: ${text}, ${say("fate_" + fate)}`;
  }

  /** The round's time as one bar: drafting, checking (the target's pass and the verdicts), everything else. */
  function clockOf(round, node, wordy) {
    const pieces = [["draft", round.t_draft], ["verify", round.t_target + round.t_verify], ["other", round.t_other]];
    const bar = make("div.tape-ms", { "aria-hidden": "true" });
    bar.style.setProperty("--whole", elapsed(round));
    for (const [kind, ms] of pieces) {
      const part = make("i.ms-" + kind);
      part.style.setProperty("--ms", ms);
      bar.append(part);
    }
    const text = make("span.tape-total", {}, milliseconds(elapsed(round)) + " ms");
    if (!wordy) { node.replaceChildren(bar, text); return node; }
    node.replaceChildren(bar, make("dl", {}, ...pieces.flatMap(([kind, ms]) =>
      [make("dt.ms-" + kind, {}, say("ms_" + kind)), make("dd", {}, milliseconds(ms))]),
      make("dt", {}, say("ms_total")), make("dd", {}, text)));
    return node;
  }

  function isWritten(span, index, beat) {
    if (!beat || index !== beat.round) return Boolean(beat) && index < beat.round;
    return beat.kind === "final" || (span.dataset.slot !== "own" && Number(span.dataset.slot) < beat.judged);
  }

  function drawNumbers() {
    const done = R.over(), [first, last] = [R.rounds[0], R.rounds[done - 1]], counts = R.counts();
    const { all, draft: drafted } = made[done - 1] ?? { all: 0, draft: 0 };
    strip.style.setProperty("--drafted", all ? drafted / all : 0);
    shares.replaceChildren(...fill(say("shares"), { all, drafted, own: all - drafted }));
    const tokens = done && all - first.emit.length, seconds = done > 1 ? (last.t0 + elapsed(last) - elapsed(first)) / 1000 : 0;
    const plain = R.end?.plain, ended = plain && seconds && done === R.rounds.length;
    numbers = { counts, tokens, seconds, plain, ratio: ended ? tokens / seconds / plain.tokens_per_second : null };
    const values = {
      per_pass: counts ? rate(counts.tokens / counts.passes) : "–",
      accepted: counts ? `${counts.accepted} / ${counts.tested}` : "–",
      speed: seconds ? rate(tokens / seconds) : "–",
      plain: plain ? rate(plain.tokens_per_second) : "–",
    };
    for (const { key, value } of tiles) value.textContent = values[key];
    define();
  }

  function define() {
    for (const { key, tile } of tiles) tile.classList.toggle("is-told", asking === key);
    const { counts, tokens, seconds, plain, ratio } = numbers;
    if (asking && !counts) return write(definition, "define_nothing");
    if (asking === "per_pass") return write(definition, "define_per_pass", counts);
    if (asking === "accepted") return write(definition, "define_accepted", counts);
    if (asking === "speed") return write(definition, "define_speed", { tokens, seconds: seconds.toFixed(2) });
    if (asking === "plain" && plain)
      return write(definition, "define_plain", { tokens: plain.tokens, seconds: plain.seconds.toFixed(2) });
    if (asking === "plain") return write(definition, R.final ? "define_no_plain" : "define_plain_later");
    // nobody gains more time than passes: then the machine was busier in one of the two
    const busy = ratio && R.header.badge !== "toy" && ratio > 1.1 * counts.tokens / counts.passes;
    if (ratio) return write(definition, busy ? "faster_busy" : ratio >= 1 ? "faster" : "slower", { ratio: ratio.toFixed(2) });
    write(definition, "define_hint");
  }
  for (const event of ["pointerleave", "focusout"]) stats.addEventListener(event, () => { asking = null; define(); });

  function drawSentence() {
    const index = R.over() - 1, key = [R.id, index, R.language].join();
    if (sentence.dataset.key === key) return;
    sentence.dataset.key = key;
    sentence.replaceChildren(...sentenceOf(R, index));
  }

  /** What a header says of weights, in the reader's language where it is one of the engine's own phrases. */
  function weightsOf(words) {
    const trained = words?.match(/^trained for (.+), 8-bit rows$/);
    return trained ? tell("weights_trained", { name: trained[1] }) : words === "Q4_1 weights, dequantised" ? say("weights_q4") : words;
  }

  function introduce() {
    const header = R.header;
    if (!header) return;
    badge.className = "tape-badge is-" + header.badge;
    write(badge, "badge_" + header.badge, { machine: header.machine ?? "?", date: (header.started ?? "").slice(0, 10) });
    const { target, draft } = header.models, { sampling } = header;
    const knobs = Object.entries(header.knobs ?? {}).filter(([name]) => name !== "k").map(([name, value]) =>
      typeof value === "boolean" ? say(`knob_${name}_${value ? "on" : "off"}`) : name === "threshold" && !value ? null : name + " " + value);
    const { k } = header.knobs ?? {}, brief = [say("method_name_" + header.method) ?? header.method, k != null && "k " + k,
      "T " + sampling.temperature, say(header.lossless ? "lossless" : "lossy")];
    const more = [target.name, weightsOf(target.weights), weightsOf(draft?.weights), target.dtype, target.device, ...knobs,
      say("seed") + " " + (header.seed ?? sampling.seed), say("rule_name_" + header.rule) ?? header.rule];
    const spans = list => list.filter(Boolean).map(fact => make("span", {}, String(fact)));
    const { open } = about.querySelector("details") ?? {};
    about.replaceChildren(make("div.tape-brief", {}, ...spans(brief)),
      make("details.tape-more", open ? { open: "" } : {}, make("summary", {}, say("about_more")), make("div", {}, ...spans(more))));
    asked.replaceChildren(make("b", {}, say("asked")), " ", make("bdi", {}, header.prompt?.text ?? ""));
  }

  // -- pointing stops time and shows, click keeps
  const cellOf = target => target.closest?.("[data-round][data-slot]");
  const refOf = cell => ({ round: Number(cell.dataset.round), slot: cell.dataset.slot === "own" ? "own" : Number(cell.dataset.slot) });

  for (const area of [grid, written]) {
    area.addEventListener("pointerover", event => {
      const cell = event.pointerType === "mouse" && cellOf(event.target);
      if (cell) { R.hold(true); R.show(refOf(cell)); }
    });
    area.addEventListener("pointerout", event => {
      if (event.pointerType !== "mouse" || cellOf(event.relatedTarget ?? area)) return;
      R.hold(false);
      if (R.pins.length) R.show(null);
    });
    area.addEventListener("click", event => { const cell = cellOf(event.target); if (cell) R.pin(refOf(cell)); });
  }
  grid.addEventListener("focusin", event => {
    const cell = cellOf(event.target);
    if (!cell) return;
    if (cell.matches(":focus-visible")) R.hold(true);
    R.show(refOf(cell));
    home = cell;
    rove();
  });
  grid.addEventListener("focusout", event => { if (!grid.contains(event.relatedTarget)) R.hold(false); });

  /** Where a token is drawn: in its line, on the stage, in the text. */
  const drawnAt = ({ round, slot }) => [lines[round], stage].flatMap(row => row ? [...row.querySelectorAll(`[data-round="${round}"][data-slot="${slot}"]`)] : [])
    .concat((spans[round] ?? []).filter(span => span.dataset.slot === String(slot)));
  const marked = [];

  /** Marks the chosen token and the pinned ones, wherever they are drawn. */
  function mark() {
    for (const cell of marked.splice(0)) cell.classList.remove("is-shown", "is-pinned");
    for (const [ref, name] of [[R.shown, "is-shown"], ...R.pins.map(pin => [pin, "is-pinned"])])
      for (const cell of ref ? drawnAt(ref) : []) { cell.classList.add(name); marked.push(cell); }
  }

  // -- keyboard: one tab stop, arrows inside
  const rows = () => [...lines, stage].filter(row => !row.hidden)
    .map(row => [...row.querySelectorAll("[data-round]")]).filter(cells => cells.length);

  const isThere = cell => cell?.isConnected && cell.dataset.round && !cell.closest("[hidden]");

  function rove() {
    const there = isThere(home) ? home : [stage, lines[seen - 1]].map(row => row?.querySelector("[data-round]")).find(Boolean);
    if (entry && entry !== there) entry.tabIndex = -1;
    if (there) there.tabIndex = 0;
    entry = there;
  }

  grid.addEventListener("keydown", event => {
    const cell = cellOf(event.target), all = rows(), at = all.findIndex(cells => cells.includes(cell));
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const row = all[at], column = row.indexOf(cell), flat = all.flat(), along = flat.indexOf(cell);
    const next = { ArrowLeft: flat[along - 1], ArrowRight: flat[along + 1], Home: row[0], End: row.at(-1),
                   ArrowUp: all[at - 1]?.[Math.min(column, all[at - 1].length - 1)],
                   ArrowDown: all[at + 1]?.[Math.min(column, all[at + 1].length - 1)] };
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return R.pin(refOf(cell)); }
    if (!(event.key in next)) return;
    event.preventDefault();
    const goal = next[event.key];
    if (!goal) return;
    goal.focus({ preventScroll: true });
    reveal(goal);
  });

  function reveal(cell) {
    const line = cell.closest(".tape-line");
    if (!line) return;
    const top = line.offsetTop, room = grid.clientHeight - stage.offsetHeight;
    if (top < grid.scrollTop) grid.scrollTop = top;
    if (top + line.offsetHeight > grid.scrollTop + room) grid.scrollTop = top + line.offsetHeight - room;
  }

  new ResizeObserver(() => grid.style.setProperty("--stage", stage.offsetHeight + "px")).observe(stage);
  return {
    node, head, sentence, legend, begin, add, draw, point: mark,
    signs() { signs.setAttribute("aria-pressed", String(R.signs)); },
    stopped: finishText,
    speak() {
      speak();
      introduce();
      const reading = lines[0]?.querySelector(".is-reading");
      if (reading) reading.textContent = say("slot_reads");
      for (const [i, line] of lines.entries())
        for (const cell of line.querySelectorAll("[data-round]")) {
          const { slot } = refOf(cell);
          cell.setAttribute("aria-label", describe(i, slot, fateIn(R.rounds[i], slot)));
        }
    },
  };
}
