// How drafters guess: who saw what in the round in view; what the target's cache made of it; what every other method would guess
// behind the very same text; and which methods there are. source.guesses(...) and source.engine need a server (app/ui.py).

const BEYOND = ["medusa", "exit", "eagle", "eagle2", "eagle3", "mtp"];   // told about, whether they run here or not

// ---- folds -------------------------------------------------------------------------------------------------------------

/**
 * Rows of the target's cache over one round: there before, written by the pass, kept of those, cut away, there after. The last
 * token of a round has no row yet, and the anchor has none before: so as many rows stay as tokens were written.
 */
function cacheOver(before, round, index) {
  const kept = index ? round.emit.length : round.rows;          // what was read of the prompt stays
  return { before, rows: round.rows, kept, cut: round.rows - kept, after: before + kept };
}

/** Slots whose rows stay: the last token of a round, a guess or not, has none. */
const keptSlots = round => round.emit.slice(0, -1).map(e => e.slot);

/** The guesses that one guess (or "own", the target's token) was judged behind. */
function ancestorsOf(round, slot) {
  const line = new Set();
  let at = slot === "own" ? keptEmits(round).at(-1)?.slot : round.draft[slot]?.parent;
  while (at != null && round.draft[at] && !line.has(at)) { line.add(at); at = round.draft[at].parent; }
  return line;
}

const passesIn = round => [...new Set(round.draft.map(d => d.pass ?? 0))].sort((a, b) => a - b);

/** Forwards of a round as the trace has them; in older traces those that gave guesses, and null where nothing tells. */
function forwardsOf(header, round) {
  if (round.passes) return round.passes;
  const draft = header.models.draft === null ? 0 : round.draft.length ? passesIn(round).length : null;
  return { draft, target: 1 };
}

/** The ids of all tokens before a round, null where the page does not have those of the prompt. */
const prefixOf = (R, index) => R.header?.prompt?.ids &&
  [...R.header.prompt.ids, ...R.rounds.slice(0, index).flatMap(round => round.emit.map(e => e.token_id))];

/** Settings of a run as the server takes them. */
function settingsOf(header) {
  const { temperature, top_k, top_p, min_p, max_new, seed } = header.sampling, { n, ...knobs } = header.knobs ?? {};
  const all = { temperature, top_k, top_p, min_p, max_new, seed, rule: header.rule, ...knobs };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value != null));
}

// ---- the view ----------------------------------------------------------------------------------------------------------

function mountWays(R, source) {
  const { say, tell, write } = R;
  const { worded, speak } = speller(R);
  const caches = [], answers = new Map();                       // answers: round -> rows, or the sentence why not
  let asking = null, drawn = "";

  const title = (key, ...more) => make("figcaption", {}, worded(make("b"), key), ...more);
  const plainText = (round, id) => parts(round.texts[id] ?? "").map(part => part[0]).join("");

  /** A token with what became of it; with a slot it is a button that shows and pins it. */
  function chip(round, id, fate, { index, slot, small } = {}) {
    const spoken = `${plainText(round, id)}, ${say("fate_" + fate)}`, own = slot !== undefined;
    const node = make((own ? "button" : "span") + ".ways-chip.is-" + fate,
      own ? { type: "button", "aria-label": spoken, "data-place": slot } : { role: "img", "aria-label": spoken },
      make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate] ?? ""), pieceNode(round, id), ...small ? [make("small", {}, small)] : []);
    node.title = spoken;
    if (own) Object.assign(node.dataset, { index });
    return node;
  }
  const box = (kind, ...inside) => make("span.ways-box.is-" + kind, {}, ...inside);
  const filled = (kind, key, values) => box(kind, ...fill(say(key), values));
  const empty = (kind = "") => make("span.ways-chip.is-waiting" + kind, { "aria-hidden": "true" });
  const arrow = (sign = "→") => make("i.ways-arrow", { "aria-hidden": "true" }, sign);
  const line = (kind, ...inside) => make("span.ways-line" + (kind && "." + kind), {}, ...inside);
  const strip = (kind, who, ...lines) => make("li.ways-strip.is-" + kind, {}, make("b.ways-who", {}, who), make("span.ways-lines", {}, ...lines));

  // -- who sees what
  const strips = make("ol.ways-strips"), count = make("p.ways-count"), told = make("p.ways-told"), judged = make("p.ways-judged");
  const sees = make("figure.ways-sees", {}, title("ways_sees"), strips, count, told, judged);

  /** The token before a round's guesses. */
  function anchorOf(index, small) {
    const before = R.rounds[index - 1], last = before?.emit.at(-1);
    return last ? chip(before, last.token_id, last.maker === "draft" ? "kept" : last.maker, { small }) : null;
  }

  /** The target's layers as a row of ticks, those that were tapped marked. */
  function tower({ taps, layers }) {
    const ticks = Array.from({ length: layers }, (_, i) => make(taps.includes(i) ? "i.is-tapped" : "i"));
    return make("span.ways-tower", { "aria-hidden": "true" }, ...ticks);
  }
  const features = (given, n) => box("features", make("span", {}, ...fill(say("ways_features"), { layers: given.taps.join(", "), n })), tower(given));

  /** What goes into guesses, as far as the trace tells: a list of kinds, or null. */
  const inputsOf = round => R.header.sees?.inputs ?? (R.header.method === "plain" ? [] : round.draft[0]?.source ? ["text"] : null);

  function stripsOf(round, index, beat) {
    if (!index) return [targetStrip(round, index, beat)];
    const inputs = inputsOf(round), wait = round.draft.length ? null : say(round.note ? "note_" + round.note : "slot_none");
    const drafting = !inputs ? sequence(round, index, beat, [], wait)
      : !inputs.length ? [strip("nobody", say("ways_who_nobody"), line("", box("text", say("ways_nobody"))))]
      : inputs.includes("masks") ? block(round, index, beat, inputs, wait)
      : round.draft[0]?.source ? search(round, index, beat) : sequence(round, index, beat, inputs, wait);
    return [...drafting, targetStrip(round, index, beat)];
  }

  const guess = (round, index, beat, slot, small) => slot < beat.shown
    ? chip(round, round.draft[slot].token_id, fateOf(round, slot, beat), { small }) : empty();

  /** One strip a pass: the text, and the guesses on which this one stands. */
  function sequence(round, index, beat, inputs, wait) {
    const n = caches[index].before + 1, passes = wait ? [null] : passesIn(round);
    const nodes = passes.map((pass, i) => {
      const slots = wait ? [] : round.draft.filter(d => (d.pass ?? 0) === pass).map(d => d.slot);
      const line1 = [];
      if (inputs.includes("features")) line1.push(features(R.header.sees, n - 1));
      if (inputs.includes("text")) line1.push(filled("text", "ways_text", { n }));
      if (inputs.includes("anchor")) line1.push(anchorOf(index));
      if (!inputs.length) line1.push(box("unknown", say("ways_unknown")));
      if (inputs.includes("guesses") && slots.length) line1.push(...[...ancestorsOf(round, slots[0])].reverse().map(slot => guess(round, index, beat, slot)));
      const who = inputs.includes("guesses") ? "ways_who_model" : inputs.includes("text") ? "ways_who_search" : "ways_who_drafter";
      return strip("pass", make("span", {}, ...fill(say(passes.length > 1 || inputs.includes("guesses") ? who + "_pass" : who), { pass: i + 1 })),
        line("", ...line1, arrow(), ...wait ? [box("unknown", wait)] : slots.map(slot => guess(round, index, beat, slot))));
    });
    const places = inputs.includes("guesses") ? R.header.knobs?.k ?? 1 : 1;
    while (nodes.length < places) nodes.push(make("li.ways-strip.is-blank", { "aria-hidden": "true" }));   // nothing below moves
    return nodes;
  }

  /** The earlier span that was found, and what followed it. */
  function search(round, index, beat) {
    const { source, matched } = round.draft[0], n = caches[index].before + 1, copied = round.copied ?? [];
    const plain = (id, kind) => make("span.ways-chip.is-" + kind, {}, pieceNode(round, id));
    const old = matched == null ? [] : copied.slice(0, matched), next = matched == null ? copied : copied.slice(matched);
    return [strip("search", say("ways_who_search"),
      line("", filled("text", "ways_ends", { n }), ...old.map(id => plain(id, "matched"))),
      line("is-found", filled("text", "ways_found", { from: (source[0] ?? 0) + 1, to: source[1] ?? 0 }), ...old.map(id => plain(id, "matched")),
        ...next.map(id => plain(id, "copied"))),
      line("", arrow(), ...round.draft.map(d => guess(round, index, beat, d.slot))))];
  }

  /** One pass over a block of masks: which slot gives which guess. Then the Markov head's walk, where there is one. */
  function block(round, index, beat, inputs, wait) {
    const { slots, anchor_guesses: first, ...given } = R.header.sees, n = caches[index].before + 1, places = Math.max(1, slots ?? round.draft.length);
    const walks = inputs.includes("guesses"), shift = first ? 0 : 1, most = R.header.knobs?.k ?? places;
    const into = Array.from({ length: places }, (_, i) => i ? box("mask", say("ways_mask")) : anchorOf(index));
    const out = Array.from({ length: places }, (_, i) => {
      const d = round.draft[i - shift], base = walks && d?.q_base_top?.[0];
      if (i < shift || i - shift >= most) return make("span.ways-chip.is-unread", {}, say("ways_unread"));
      if (!d) return make("span.ways-chip.is-unread", {}, wait && i === shift ? "" : say("ways_unsent"));
      return base && d.slot < beat.shown ? make("span.ways-chip.is-base", {}, pieceNode(round, base[0])) : guess(round, index, beat, d.slot);
    });
    const grid = make("span.ways-block", {}, features(given, n - 1), ...into, ...into.map(() => arrow("↓")), ...out);
    grid.style.setProperty("--slots", places);
    const nodes = [strip("block", say("ways_who_block"), grid, ...wait ? [line("", box("unknown", wait))] : [])];
    if (!walks) return nodes;
    const steps = round.draft.flatMap(d => [arrow(), guess(round, index, beat, d.slot,
      d.slot < beat.shown && d.bias != null ? (d.bias < 0 ? "−" : "+") + Math.abs(d.bias).toFixed(1) : "")]);
    return [...nodes, strip("walk", say("ways_who_markov"), line("is-walk", anchorOf(index), ...steps))];
  }

  /** The target's one pass: its cache, the anchor, all guesses; it gives verdicts and its own token. */
  function targetStrip(round, index, beat) {
    const own = ownEmit(round), places = Math.max(round.draft.length, R.header.knobs?.k ?? 0), at = beat.round;
    const guesses = Array.from({ length: places }, (_, slot) => slot < beat.shown
      ? chip(round, round.draft[slot].token_id, fateOf(round, slot, beat), { index: at, slot }) : empty());
    const into = index ? [filled("cache", "ways_cached", { n: caches[index].before }), anchorOf(index), ...guesses]
      : [filled("text", "ways_text", { n: round.rows })];
    const shown = own && beat.kind === "final" ? chip(round, own.token_id, own.maker, { index: at, slot: "own" }) : empty();
    return strip("target", say("ways_who_target"), line("is-checked", ...into.filter(Boolean), arrow(), shown));
  }

  /** Passes and tokens of the round, then what the method is about. */
  function drawCounts(round, index) {
    const { draft, target } = forwardsOf(R.header, round), inputs = index ? inputsOf(round) : [], guessing = passesIn(round).length;
    write(count, "ways_count", { draft: draft ?? "–", target, tokens: round.emit.length });
    if (draft > guessing && guessing && round.passes) count.append(" ", ...fill(say("ways_reading"), { extra: draft - guessing }));
    const kind = !index ? "prompt" : !inputs ? "unknown" : !inputs.length ? "nobody" : inputs.includes("masks")
      ? inputs.includes("guesses") ? "walk" : "block" : inputs.includes("guesses") ? "sequence" : "search";
    const slots = R.header.sees?.slots ?? 1;
    write(told, "ways_told_" + kind, { k: round.draft.length, before: Math.max(0, round.draft.length - 1), masks: slots - 1 });
  }

  /** What the chosen token was judged behind: its ancestors light up, the rest steps back. */
  function point() {
    const round = R.round(), beat = R.beat(), chosen = R.chosen(), here = round && chosen?.round === beat.round ? chosen.slot : null;
    const line = here === null ? null : ancestorsOf(round, here);
    for (const node of strips.querySelectorAll("[data-place]")) {
      const slot = node.dataset.place === "own" ? "own" : Number(node.dataset.place);
      node.classList.toggle("is-here", slot === here);
      node.classList.toggle("is-lit", Boolean(line?.has(slot)));
      node.classList.toggle("is-apart", Boolean(line) && slot !== here && !line.has(slot));
      node.setAttribute("aria-pressed", String(R.pins.some(pin => same(pin, { round: beat.round, slot }))));
    }
    if (!line || !caches[beat.round]) return write(judged, round?.draft.length ? "ways_judged_hint" : "ways_judged_none");
    write(judged, here === "own" ? "ways_judged_own" : "ways_judged", { slot: here === "own" ? "" : here + 1, n: caches[beat.round].before + 1, m: line.size,
      apart: round.draft.length - line.size - (here === "own" ? 0 : 1) });
  }
  const refOf = target => { const node = target.closest?.("[data-place]"); return node && { round: Number(node.dataset.index), slot: node.dataset.place === "own" ? "own" : Number(node.dataset.place) }; };
  strips.addEventListener("pointerover", event => { const ref = event.pointerType === "mouse" && refOf(event.target); if (ref) { R.hold(true); R.show(ref); } });
  strips.addEventListener("pointerout", event => {
    if (event.pointerType !== "mouse" || refOf(event.relatedTarget ?? strips)) return;
    R.hold(false);
    if (R.pins.length) R.show(null);
  });
  strips.addEventListener("focusin", event => { const ref = refOf(event.target); if (ref) R.show(ref); });
  strips.addEventListener("click", event => { const ref = refOf(event.target); if (ref) R.pin(ref); });

  // -- the cache
  const length = make("output.ways-length"), lane = make("div.ways-lane", { role: "img" }), cells = make("div.ways-cells"), story = make("p.ways-story");
  const cache = make("figure.ways-cache", {}, title("ways_cache", length), lane, cells, story, worded(make("p.ways-note"), "ways_cache_note"));

  function drawCache(round, index, beat) {
    const { before, rows, kept, cut, after } = caches[index], over = beat.kind === "final", written = beat.kind === "draft" ? 0 : rows;
    const whole = Math.max(before + rows, (R.rounds[0].rows ?? 0) + (R.header.sampling.max_new ?? 0)), stay = new Set(keptSlots(round));
    const kinds = Array.from({ length: written && index ? rows : 0 }, (_, i) =>
      !over ? "written" : !i ? "anchor" : stay.has(i - 1) ? "kept" : "cut");
    const runs = [["before", before], ...index ? kinds.map(kind => [kind, 1]) : [[over ? "before" : "written", written]],
                  ["free", whole - before - written]];
    lane.replaceChildren(...runs.filter(([, n]) => n > 0).map(([kind, n]) => {
      const part = make("i.is-" + kind);
      part.style.flexGrow = n;
      return part;
    }));
    const now = over ? after : before;
    write(length, "ways_length", { n: now });
    const key = over ? index ? "ways_story_final" : "ways_story_prompt" : beat.kind === "draft" ? "ways_story_before" : "ways_story_pass";
    write(story, key, { before, rows, kept, cut, after, drafted: rows - 1 });
    lane.setAttribute("aria-label", story.textContent);
    const cell = (kind, row, ...inside) => make("span.ways-cell.is-" + kind, {}, make("small", {}, row), ...inside);
    const place = (i, node) => {
      const kind = kinds[i] ?? "free", word = { anchor: "ways_stays", kept: "ways_stays", cut: "fate_pruned", written: "ways_written" }[kind];
      return cell(kind, kind === "free" ? "" : before + i + 1, node && kind !== "free" ? node : "", make("span.ways-word", {},
        make("span.tape-glyph", { "aria-hidden": "true" }, { anchor: "✓", kept: "✓", cut: GLYPHS.pruned }[kind] ?? ""), word ? say(word) : ""));
    };
    const anchor = R.rounds[index - 1], last = anchor?.emit.at(-1), places = 1 + Math.max(rows - 1, R.header.knobs?.k ?? 0);
    cells.replaceChildren(cell("before", "", make("b", {}, before), make("span.ways-word", {}, say("ways_there"))),
      ...!index ? [] : Array.from({ length: places }, (_, i) => place(i, !i ? last && pieceNode(anchor, last.token_id)
        : round.draft[i - 1] && pieceNode(round, round.draft[i - 1].token_id))));
  }

  // -- every method behind the same text
  const ask = worded(make("button.ways-ask", { type: "button" }), "ways_ask"), why = make("p.ways-why", { role: "status" });
  const rows = make("ol.ways-rows"), verdict = make("p.ways-verdict", { role: "status" });
  const here = make("figure.ways-here", {}, title("ways_here", ask), why, rows, verdict);
  const placeOf = () => R.id + "/" + R.beat()?.round;
  const able = () => source.guesses && R.beat() && R.final && R.header.prompt?.ids;

  ask.addEventListener("click", async () => {
    const place = placeOf(), index = R.beat().round, { header } = R;
    asking = place;
    drawHere();
    try {
      answers.set(place, await source.guesses(prefixOf(R, index), header.prompt.ids.length, source.engine.methods, settingsOf(header), header.models.target.hash ?? ""));
    } catch (error) { answers.set(place, error.message || say("fair_failed")); }
    asking = null;
    drawHere();
  });

  /** The same draft and the same verdicts as the round in view? */
  const repeats = (one, other) => ["draft", "verify"].every((part, i) =>
    JSON.stringify(one[part].map(x => i ? x.verdict : x.token_id)) === JSON.stringify(other[part].map(x => i ? x.verdict : x.token_id)));

  function rowOf({ method, off, round, prefix, length }) {
    const name = make("b.ways-method", {}, say("method_name_" + method) ?? method);
    if (off) return make("li.ways-row.is-off", { "data-method": method }, name, make("span.ways-reason", {}, say("ways_off")));
    const own = ownEmit(round), { draft, target } = round.passes, index = R.beat().round;
    const mine = method === R.header.method && index ? say(repeats(round, R.round()) ? "ways_repeats" : "ways_differs") : "";
    return make("li.ways-row", { "data-method": method, "data-prefix": prefix },
      make("span.ways-label", {}, name, make("small", {}, mine)),
      make("span.ways-guesses", {}, ...round.draft.map(d => chip(round, d.token_id, round.verify[d.slot].verdict, { small: "q " + short(d.q_tok) })),
        ...own ? [chip(round, own.token_id, own.maker)] : [], ...round.note ? [make("small", {}, say("note_" + round.note))] : []),
      make("span.ways-facts", {}, make("span", {}, ...fill(say("ways_facts"), { draft, target, tokens: round.emit.length })),
        make("small", {}, ...fill(say("ways_prefix"), { prefix: make("code", {}, prefix), n: length }))));
  }

  function drawHere() {
    const found = answers.get(placeOf()), there = Array.isArray(found) ? found : null;
    ask.disabled = !able() || asking !== null;
    const reason = asking === placeOf() ? "ways_asking" : !source.guesses ? "ways_offline" : !able() ? "ways_unfinished" : null;
    if (typeof found === "string" && !reason) why.textContent = found;
    else write(why, reason ?? (there ? "ways_answered" : "ways_ask_note"), { round: (R.beat()?.round ?? 0) + 1 });
    rows.style.setProperty("--rows", source.engine?.methods.length ?? 0);
    rows.replaceChildren(...(there ?? []).map(rowOf));
    const made = there?.filter(row => row.round) ?? [], best = made.length && made.reduce((a, b) => (b.round.emit.length > a.round.emit.length ? b : a));
    if (!best) return verdict.replaceChildren();
    const values = { method: say("method_name_" + best.method) ?? best.method, tokens: best.round.emit.length, n: best.length };
    write(verdict, best.round.emit.length > 1 ? "ways_best" : "ways_best_none", values);
  }

  // -- the methods there are
  const body = make("tbody"), heads = ["method", "would", "runs"].map(key => worded(make("th", { scope: "col" }), "ways_head_" + key));
  const map = make("figure.ways-map", {}, title("ways_map"), make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body), worded(make("p.ways-note"), "ways_map_note"));

  function drawMap() {
    const methods = source.engine?.methods ?? [R.header?.method].filter(Boolean), ready = source.engine?.state();
    const status = name => !source.engine ? ["unknown", "ways_no_engine"] : !methods.includes(name) ? ["absent", "ways_absent"]
      : !ready ? ["unknown", "ways_not_ready"] : ready.off.includes(name) ? ["off", "ways_untrained"] : ["on", "ways_runs"];
    body.replaceChildren(...[...methods, ...BEYOND.filter(name => !methods.includes(name))].map(name => {
      const [kind, key] = status(name);
      return make("tr.is-" + kind, { "data-method": name }, make("th", { scope: "row" }, say("ways_name_" + name) ?? say("method_name_" + name) ?? name),
        make("td", {}, say("ways_sees_" + name) ?? "–"),
        make("td.ways-status", {}, make("span.tape-glyph", { "aria-hidden": "true" }, { on: "✓ ", off: "○ ", absent: "– " }[kind] ?? "? "),
          ...fill(say(key), { name: ready?.name ?? "" })));
    }));
  }
  source.engine?.hear(() => { if (!node.hidden) drawMap(); });

  // -- all of it
  function draw() {
    const round = R.round(), beat = R.beat(), key = [R.id, R.language, R.at, R.rounds.length > 0, R.final].join();
    if (key === drawn) return;
    drawn = key;
    drawMap();
    drawHere();
    node.dataset.empty = !round;
    if (!round) { for (const part of [strips, lane, cells, length]) part.replaceChildren(); return write(count, "ways_nothing"); }
    const focus = document.activeElement?.dataset.place;
    const held = strips.contains(document.activeElement);
    strips.replaceChildren(...stripsOf(round, beat.round, beat));
    if (held) strips.querySelector(`[data-place="${focus}"]`)?.focus({ preventScroll: true });
    drawCounts(round, beat.round);
    drawCache(round, beat.round, beat);
    point();
  }

  const node = make("section.view-ways", {}, sees, cache, here, map);
  return {
    name: "ways", node, draw, point, speak() { speak(); drawn = ""; },
    begin() { caches.length = 0; answers.clear(); drawn = ""; },
    add(round, index) { caches.push(cacheOver(caches.at(-1)?.after ?? 0, round, index)); },
  };
}
