// How drafters guess: who saw what in the round in view; what the target's cache made of it; what every other method would
// guess behind the very same text; and which methods there are. source.guesses() and source.engine need a server.

const BEYOND = ["medusa", "exit", "eagle", "eagle2", "eagle3", "mtp"];   // told about, whether they run here or not

const SIGNS = { on: "✓ ", off: "○ ", absent: "– ", unknown: "… " };       // of a method: whether it runs here

/** What is said of a row of the cache. */
const OUTCOMES = { written: ["", "ways_written"], anchor: ["✓", "ways_stays"], kept: ["✓", "ways_stays"],
                   cut: [GLYPHS.pruned, "fate_pruned"] };

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

  /** Tokens of the text before a round; all but the newest, the anchor, have rows in the cache. */
  const textBefore = index => index ? caches[index].before + 1 : R.rounds[0].rows;

  const title = (key, ...more) => make("figcaption", {}, worded(make("b"), key), ...more);

  /** A token with what became of it; with a slot it is a button that shows and pins it. */
  function chip(round, id, fate, { index, slot, small } = {}) {
    const text = parts(round.texts[id] ?? "").map(part => part[0]).join(""), spoken = `${text}, ${say("fate_" + fate)}`;
    const own = slot !== undefined, role = own ? { type: "button", "data-place": slot } : { role: "img" };
    const node = make((own ? "button" : "span") + ".ways-chip.is-" + fate, { "aria-label": spoken, title: spoken, ...role },
      glyph(GLYPHS[fate] ?? ""), pieceNode(round, id), ...small ? [make("small", {}, small)] : []);
    if (own) node.dataset.index = index;
    return node;
  }
  const glyph = sign => make("span.tape-glyph", { "aria-hidden": "true" }, sign);
  const nameOf = method => say("ways_name_" + method) ?? method;
  const box = (kind, ...inside) => make("span.ways-box.is-" + kind, {}, ...inside);
  const filled = (kind, key, values) => box(kind, ...fill(say(key), values));
  const empty = () => make("span.ways-chip.is-waiting", { "aria-hidden": "true" });
  const arrow = (sign = "→") => make("i.ways-arrow", { "aria-hidden": "true" }, sign);
  const line = (kind, ...inside) => make("span.ways-line" + (kind && "." + kind), {}, ...inside);
  const strip = (kind, who, ...lines) => make("li.ways-strip.is-" + kind, {},
    make("b.ways-who", {}, who), make("span.ways-lines", {}, ...lines));

  // -- who sees what
  const strips = make("ol.ways-strips"), count = make("p.ways-count");
  const told = make("p.ways-told"), judged = make("p.ways-judged");
  const sees = make("figure.ways-sees", {}, title("ways_sees"), strips, count, told, judged);

  /** The token before a round's guesses. */
  function anchorOf(index) {
    const before = R.rounds[index - 1], last = before?.emit.at(-1);
    return last ? chip(before, last.token_id, last.maker === "draft" ? "kept" : last.maker) : empty();
  }

  /** The target's layers as a row of ticks, those that were tapped marked. */
  function tower({ taps, layers }) {
    const ticks = Array.from({ length: layers }, (_, i) => make(taps.includes(i) ? "i.is-tapped" : "i"));
    return make("span.ways-tower", { "aria-hidden": "true" }, ...ticks);
  }
  const features = (given, n) => box("features",
    make("span", {}, ...fill(say("ways_features"), { layers: given.taps.join(", "), n })), tower(given));

  /** What goes into guesses, as far as the trace tells: a list of kinds, or null. */
  const inputsOf = round =>
    R.header.sees?.inputs ?? (R.header.method === "plain" ? [] : round.draft[0]?.source ? ["text"] : null);

  function stripsOf(round, index, beat) {
    const inputs = inputsOf(round), wait = round.draft.length ? null : say(round.note ? "note_" + round.note : "slot_none");
    const drafting = !inputs ? sequence(round, index, beat, [], wait)
      : !inputs.length ? [strip("nobody", say("ways_who_nobody"), line("", box("text", say("ways_nobody"))))]
      : inputs.includes("masks") ? block(round, index, beat, inputs, wait)
      : inputs.includes("guesses") ? sequence(round, index, beat, inputs, wait) : search(round, index, beat, wait);
    if (!index) for (const node of drafting) blank(node);       // the prompt's round has none, but nothing may move afterwards
    return [...drafting, targetStrip(round, index, beat)];
  }

  const guess = (round, beat, slot, small) => slot < beat.shown
    ? chip(round, round.draft[slot].token_id, fateOf(round, slot, beat), { small }) : empty();

  const blank = node => { node.classList.add("is-blank"); node.setAttribute("aria-hidden", "true"); return node; };

  /** Why nothing came. */
  const waiting = why => [arrow(), make("span.ways-reason", {}, why)];

  /** One strip a pass: the text, and the guesses on which this one stands. */
  function sequence(round, index, beat, inputs, wait) {
    const n = textBefore(index), passes = wait ? [null] : passesIn(round), own = inputs.includes("guesses");
    const who = `ways_who_${own ? "model" : "drafter"}${wait ? "" : "_pass"}`;
    const nodes = passes.map((pass, i) => {
      const slots = wait ? [] : round.draft.filter(d => (d.pass ?? 0) === pass).map(d => d.slot), seen = [];
      if (!inputs.length) seen.push(box("unknown", say("ways_unknown")));
      if (inputs.includes("features")) seen.push(features(R.header.sees, n - 1));
      if (inputs.includes("text")) seen.push(filled("text", "ways_text", { n }));
      if (inputs.includes("anchor")) seen.push(anchorOf(index));
      if (own && slots.length) seen.push(...[...ancestorsOf(round, slots[0])].reverse().map(slot => guess(round, beat, slot)));
      return strip("pass", make("span", {}, ...fill(say(who), { pass: i + 1 })),
        line("", ...seen, ...wait ? waiting(wait) : [arrow(), ...slots.map(slot => guess(round, beat, slot))]));
    });
    const blanks = own ? Math.max(0, (R.header.knobs?.k ?? 1) - nodes.length) : 0;
    return [...nodes, ...Array.from({ length: blanks }, () => blank(make("li.ways-strip")))];
  }

  /** The earlier span that was found, and what followed it. */
  function search(round, index, beat, wait) {
    const { source: [from, to] = [], matched = 0 } = round.draft[0] ?? {}, n = textBefore(index), copied = round.copied ?? [];
    const span = (ids, kind) => ids.map(id => make("span.ways-chip.is-" + kind, {}, pieceNode(round, id)));
    const same = copied.slice(0, matched);
    return [strip("search", say("ways_who_search"),
      line("", filled("text", same.length ? "ways_ends" : "ways_text", { n }), ...span(same, "matched")),
      line("is-found", ...wait ? [] : [filled("text", "ways_found", { from: from + 1, to }),
        ...span(same, "matched"), ...span(copied.slice(matched), "copied")]),
      line("", ...wait ? waiting(wait) : [arrow(), ...round.draft.map(d => guess(round, beat, d.slot))]))];
  }

  /** One pass over a block of masks: which slot gives which guess. Then the Markov head's walk, where there is one. */
  function block(round, index, beat, inputs, wait) {
    const { slots, anchor_guesses: first, ...given } = R.header.sees, places = Math.max(1, slots ?? round.draft.length);
    const walks = inputs.includes("guesses"), shift = first ? 0 : 1, most = R.header.knobs?.k ?? places;
    const into = Array.from({ length: places }, (_, i) => i ? box("mask", say("ways_mask")) : anchorOf(index));
    const out = Array.from({ length: places }, (_, i) => {
      const d = round.draft[i - shift], base = walks && d?.slot < beat.shown && d.q_base_top?.[0];
      if (i < shift || i - shift >= most) return make("span.ways-chip.is-unread", {}, say("ways_unread"));
      if (!d) return make("span.ways-chip.is-unread", {}, say("ways_unsent"));
      return base ? make("span.ways-chip.is-base", {}, pieceNode(round, base[0])) : guess(round, beat, d.slot);
    });
    const grid = make("span.ways-block", {},
      features(given, caches[index].before), ...into, ...into.map(() => arrow("↓")),
      ...wait ? [make("span.ways-line.is-wide", {}, ...waiting(wait))] : out);
    grid.style.setProperty("--slots", places);
    const nodes = [strip("block", say("ways_who_block"), grid)];
    if (!walks) return nodes;
    const bias = d => d.bias == null ? "" : (d.bias < 0 ? "−" : "+") + Math.abs(d.bias).toFixed(1);
    const steps = Array.from({ length: most }, (_, slot) => make("span.ways-step", {}, arrow(),
      round.draft[slot] ? guess(round, beat, slot, bias(round.draft[slot])) : empty()));
    return [...nodes, strip("walk", say("ways_who_markov"), line("is-walk", anchorOf(index), ...steps))];
  }

  /** The target's one pass: its cache, the anchor, all guesses; it gives verdicts and its own token. */
  function targetStrip(round, index, beat) {
    const own = ownEmit(round), places = Math.max(round.draft.length, R.header.knobs?.k ?? 0);
    const guesses = Array.from({ length: places }, (_, slot) => slot < beat.shown
      ? chip(round, round.draft[slot].token_id, fateOf(round, slot, beat), { index, slot }) : empty());
    const [key, n] = index ? ["ways_cached", caches[index].before] : ["ways_read", round.rows];
    const shown = own && beat.kind === "final" ? chip(round, own.token_id, own.maker, { index, slot: "own" }) : empty();
    return strip("target", say("ways_who_target"), line("is-checked",
      filled("cache", key, { n }), anchorOf(index), ...guesses, line("", arrow(), shown)));
  }

  /** Passes and tokens of the round, then what the method is about. */
  function drawCounts(round, index) {
    const { draft, target } = forwardsOf(R.header, round), guessing = passesIn(round).length, inputs = inputsOf(round);
    const extra = guessing && round.passes ? draft - guessing : 0;
    write(count, R.beat().kind === "final" ? "ways_count" : "ways_counting", { draft: draft ?? "–", target, tokens: round.emit.length });
    if (extra > 0) count.append(" ", ...fill(say("ways_reading"), { extra }));
    const block = inputs?.includes("masks"), own = inputs?.includes("guesses");
    const kind = !index ? "prompt" : !inputs ? "unknown" : !inputs.length ? "nobody" : !guessing ? "none"
      : block ? own ? "walk" : "block" : own ? "sequence" : "search";
    const slots = R.header.sees?.slots ?? 1;
    write(told, "ways_told_" + kind, { k: round.draft.length, before: Math.max(0, round.draft.length - 1), masks: slots - 1 });
  }

  /** What the chosen token was judged behind: its ancestors light up, the rest steps back. */
  function point() {
    const round = R.round(), beat = R.beat(), chosen = R.chosen();
    const here = round && chosen?.round === beat.round ? chosen.slot : null;
    const behind = here === null ? null : ancestorsOf(round, here);
    for (const node of strips.querySelectorAll("[data-place]")) {
      const slot = slotOf(node);
      node.classList.toggle("is-here", slot === here);
      node.classList.toggle("is-lit", Boolean(behind?.has(slot)));
      node.classList.toggle("is-apart", Boolean(behind) && slot !== here && !behind.has(slot));
      node.setAttribute("aria-pressed", String(R.pins.some(pin => same(pin, { round: beat.round, slot }))));
    }
    if (!behind) return write(judged, round?.draft.length ? "ways_judged_hint" : "ways_judged_none");
    const own = here === "own", others = round.draft.length - behind.size;
    write(judged, own ? "ways_judged_own" : "ways_judged",
      { slot: here + 1, n: textBefore(beat.round), m: behind.size, apart: own ? others : others - 1 });
  }
  const slotOf = node => node.dataset.place === "own" ? "own" : Number(node.dataset.place);
  const refOf = target => {
    const node = target.closest?.("[data-place]");
    return node && { round: Number(node.dataset.index), slot: slotOf(node) };
  };
  strips.addEventListener("pointerover", event => {
    const ref = event.pointerType === "mouse" && refOf(event.target);
    if (ref) { R.hold(true); R.show(ref); }
  });
  strips.addEventListener("pointerout", event => {
    if (event.pointerType !== "mouse" || refOf(event.relatedTarget ?? strips)) return;
    R.hold(false);
    if (R.pins.length) R.show(null);
  });
  strips.addEventListener("focusin", event => { const ref = refOf(event.target); if (ref) R.show(ref); });
  strips.addEventListener("click", event => { const ref = refOf(event.target); if (ref) R.pin(ref); });

  // -- the cache
  const length = make("output.ways-length"), lane = make("div.ways-lane", { role: "img" });
  const cells = make("div.ways-cells"), story = make("p.ways-story");
  const cache = make("figure.ways-cache", {}, title("ways_cache", length), lane, cells, story,
    worded(make("p.ways-note"), "ways_cache_note"));

  function drawCache(round, index, beat) {
    const { before, rows, kept, cut, after } = caches[index], stay = new Set(keptSlots(round));
    const over = beat.kind === "final", written = beat.kind === "draft" ? 0 : rows;
    const whole = Math.max(before + rows, textBefore(0) + (R.header.sampling.max_new ?? 0));
    const kinds = Array.from({ length: written && index ? rows : 0 }, (_, i) =>
      !over ? "written" : !i ? "anchor" : stay.has(i - 1) ? "kept" : "cut");
    const runs = [["before", before], ...index ? kinds.map(kind => [kind, 1]) : [[over ? "before" : "written", written]],
                  ["free", whole - before - written]];
    lane.replaceChildren(...runs.filter(([, n]) => n > 0).map(([kind, n]) => {
      const part = make("i.is-" + kind);
      part.style.flexGrow = n;
      return part;
    }));
    write(length, "ways_length", { n: over ? after : before });
    const part = !over ? written ? "pass" : "before" : index ? "final" : "prompt";
    write(story, "ways_story_" + part, { before, rows, kept, cut, after, drafted: rows - 1 });
    lane.setAttribute("aria-label", story.textContent);
    const cell = (kind, ...inside) => make("span.ways-cell.is-" + kind, {}, ...inside);
    const previous = R.rounds[index - 1], places = 1 + Math.max(round.draft.length, R.header.knobs?.k ?? 0);
    cells.replaceChildren(cell("before", make("b", {}, before), make("span.ways-word", {}, say("ways_there"))),
      ...Array.from({ length: places }, (_, i) => {
        if (!kinds[i]) return cell("free");
        const [source, id] = i ? [round, tokenAt(round, i - 1)] : [previous, previous.emit.at(-1)?.token_id];
        const [sign, word] = OUTCOMES[kinds[i]];
        return cell(kinds[i], make("small", {}, before + i + 1), pieceNode(source, id),
          make("span.ways-word", {}, glyph(sign), say(word)));
      }));
  }

  // -- every method behind the same text
  const ask = worded(make("button.ways-ask", { type: "button" }), "ways_ask"), why = make("p.ways-why", { role: "status" });
  const rows = make("ol.ways-rows"), verdict = make("p.ways-verdict", { role: "status" });
  const here = make("figure.ways-here", {}, title("ways_here", ask), why, rows, verdict);
  const placeOf = () => R.id + "/" + R.beat()?.round;
  const able = () => source.guesses && R.beat() && R.final && R.header.prompt?.ids;

  ask.addEventListener("click", async () => {
    const place = placeOf(), { prompt, models } = R.header;
    asking = place;
    drawHere();
    try {
      answers.set(place, await source.guesses(prefixOf(R, R.beat().round), prompt.ids.length, source.engine.methods,
        settingsOf(R.header), models.target.hash ?? ""));
    } catch (error) { answers.set(place, error.message || say("fair_failed")); }
    asking = null;
    drawHere();
  });

  /** The same draft and the same verdicts as the round in view? */
  const decided = round => JSON.stringify([round.draft.map(d => d.token_id), round.verify.map(v => v.verdict), round.emit]);

  function rowOf({ method, off, round, prefix, length }) {
    const name = make("b.ways-method", {}, nameOf(method));
    if (off) return make("li.ways-row.is-off", { "data-method": method }, name, make("span.ways-reason", {}, say("ways_off")));
    const own = ownEmit(round), { draft, target } = round.passes, index = R.beat().round;
    const mine = method === R.header.method && index > 0;
    const repeated = mine ? say(decided(round) === decided(R.round()) ? "ways_repeats" : "ways_differs") : "";
    return make("li.ways-row", { "data-method": method, "data-prefix": prefix },
      make("span.ways-label", {}, name, make("small", {}, repeated)),
      make("span.ways-guesses", {},
        ...round.draft.map(d => chip(round, d.token_id, round.verify[d.slot].verdict, { small: "q " + short(d.q_tok) })),
        ...own ? [chip(round, own.token_id, own.maker)] : [],
        ...round.note ? [make("small", {}, say("note_" + round.note))] : []),
      make("span.ways-facts", {}, make("span", {}, ...fill(say("ways_facts"), { draft, target, tokens: round.emit.length })),
        make("small", {}, ...fill(say("ways_prefix"), { prefix: make("code", {}, prefix), n: length }))));
  }

  function drawHere() {
    const found = answers.get(placeOf()), there = Array.isArray(found) ? found : null;
    ask.disabled = !able() || asking !== null;
    const reason = !source.guesses ? "ways_offline" : asking === placeOf() ? "ways_asking" : !able() ? "ways_unfinished" : null;
    if (typeof found === "string" && !reason) why.textContent = found;
    else write(why, reason ?? (there ? "ways_answered" : "ways_ask_note"), { round: (R.beat()?.round ?? 0) + 1 });
    rows.style.setProperty("--rows", asking || answers.size ? source.engine?.methods.length ?? 0 : 0);   // room from the first question on
    rows.replaceChildren(...(there ?? []).map(rowOf));
    const made = there?.filter(row => row.round) ?? [], tokens = Math.max(...made.map(row => row.round.emit.length));
    if (!made.length) return verdict.replaceChildren();
    const best = made.filter(row => row.round.emit.length === tokens).map(row => nameOf(row.method)).join(say("list_and"));
    write(verdict, tokens > 1 ? "ways_best" : "ways_best_none", { methods: best, tokens, n: made[0].length });
  }

  // -- the methods there are
  const body = make("tbody");
  const heads = ["method", "would", "runs"].map(key => worded(make("th", { scope: "col" }), "ways_head_" + key));
  const map = make("figure.ways-map", {}, title("ways_map"),
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body), worded(make("p.ways-note"), "ways_map_note"));

  function drawMap() {
    const methods = source.engine?.methods ?? [R.header?.method].filter(Boolean), ready = source.engine?.state();
    const status = name => !source.engine ? ["unknown", "ways_no_engine"] : !methods.includes(name) ? ["absent", "ways_absent"]
      : !ready ? ["unknown", "ways_not_ready"] : ready.off.includes(name) ? ["off", "ways_untrained"] : ["on", "ways_runs"];
    body.replaceChildren(...[...methods, ...BEYOND.filter(name => !methods.includes(name))].map(name => {
      const [kind, key] = status(name);
      return make("tr.is-" + kind, { "data-method": name }, make("th", { scope: "row" }, nameOf(name)),
        make("td", {}, say("ways_sees_" + name) ?? "–"),
        make("td.ways-status", {}, glyph(SIGNS[kind]), ...fill(say(key), { name: ready?.name ?? "" })));
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
    if (!round) {
      for (const part of [strips, lane, cells, length, told, judged, story]) part.replaceChildren();
      return write(count, "ways_nothing");
    }
    const held = strips.contains(document.activeElement) && document.activeElement.dataset.place;
    strips.replaceChildren(...stripsOf(round, beat.round, beat));
    if (held) strips.querySelector(`[data-place="${held}"]`)?.focus({ preventScroll: true });
    drawCounts(round, beat.round);
    drawCache(round, beat.round, beat);
    point();
  }

  const node = make("section.view-ways", {}, sees, cache, here, map);
  return {
    name: "ways", node, draw, point, speak() { speak(); drawn = ""; },
    begin() {
      caches.length = 0;
      answers.clear();
      drawn = "";
      sees.dataset.block = Boolean(R.header.sees?.inputs.includes("masks"));
    },
    add(round, index) { caches.push(cacheOver(caches.at(-1)?.after ?? 0, round, index)); },
  };
}
