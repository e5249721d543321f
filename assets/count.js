// Counting: what became of every guess, where the bonus comes from, five meanings of "acceptance rate", and what one more guess
// is worth. Totals come ready with every round (engine/metrics.py).

const NOTHING = { passes: 0, tokens: 0, drafted: 0, tested: 0, accepted: 0, offered: [], reached: [], kept: [] };
const FATES = ["kept", "rejected", "not_reached", "pruned"];

/** All guesses of the rounds that are over, by what became of them. */
function fatesOf(counts, rounds) {
  const pruned = sum(rounds.map(round => round.verify.filter(v => v.verdict === "pruned").length));
  const { drafted, tested, accepted } = counts;
  return { kept: accepted, rejected: tested - accepted, not_reached: drafted - tested - pruned, pruned };
}

/** The same rounds with only their first `most` guesses offered; for a tree, the guesses down to that depth. */
function firstOnly(rounds, most) {
  const out = { drafted: 0, accepted: 0, tokens: 0, passes: rounds.length };
  for (const round of rounds) {
    const kept = keptEmits(round), left = kept.filter(e => round.draft[e.slot].depth <= most).length;
    out.drafted += round.draft.filter(d => d.depth <= most).length;
    out.accepted += left;
    out.tokens += left + (ownEmit(round) || left < kept.length ? 1 : 0);   // where the guesses end the target writes one
  }
  return out;
}

/** The five meanings: [name, value or null, what it is made of as text]. */
function meaningsOf(counts) {
  const { accepted, drafted, tested, tokens, passes, kept, reached } = counts;
  const over = (part, whole) => (whole ? part / whole : null);
  const places = reached.map((n, i) => [kept[i] ?? 0, n]).filter(([, n]) => n);
  return [
    ["drafted", over(accepted, drafted), `${accepted} / ${drafted}`],
    ["tested", over(accepted, tested), `${accepted} / ${tested}`],
    ["conditional", over(sum(places.map(([hits, n]) => hits / n)), places.length),
      places.length ? `(${places.map(([hits, n]) => `${hits}/${n}`).join(" + ")}) / ${places.length}` : "–"],
    ["length", over(tokens, passes), `${tokens} / ${passes}`],
    ["kept", over(accepted, passes), `${accepted} / ${passes}`],
  ];
}

function mountCount(R) {
  const { experiment } = R;
  const { say, write } = R;
  const { worded, speak } = speller(R);
  let most = 0, drawn = "";                                          // most: guesses offered, 0 = all

  // -- four fates
  const bar = make("div.count-bar", { "aria-hidden": "true" }), list = make("ul.count-fates"), judged = make("p.count-told");

  function drawFates(counts, rounds) {
    const fates = fatesOf(counts, rounds), shown = FATES.filter(fate => fate !== "pruned" || fates.pruned);
    bar.replaceChildren(...shown.map(fate => {
      const part = make("i.is-" + fate);
      part.style.setProperty("flex-grow", fates[fate]);
      return part;
    }));
    list.replaceChildren(...shown.map(fate => make("li.is-" + fate, {},
      make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]),
      make("span.count-word", {}, say("fate_" + fate)), make("b", {}, String(fates[fate])),
      make("small", {}, counts.drafted ? percent(fates[fate] / counts.drafted) : ""))));
    write(judged, counts.drafted ? "count_judged" : "count_nothing", { ...counts, ...fates });
  }

  // -- the bonus
  const rows = make("div.count-rows"), bonus = make("p.count-told.count-bonus"), waste = make("p.count-told.count-waste");

  /** One row of the pass per guess and one more: what each was there to check, in the round in view. */
  function drawRows(beat, round) {
    const k = R.header?.knobs?.k ?? 0, own = round && ownEmit(round), final = beat?.kind === "final";
    const at = own ? (keptEmits(round).at(-1)?.slot ?? -1) + 1 : -1;   // the row that wrote the target's own token
    rows.style.setProperty("--rows", k + 1);
    rows.replaceChildren(...Array.from({ length: k + 1 }, (_, i) => {
      const d = round?.draft[i], there = Boolean(round) && i <= round.draft.length, last = round && i === round.draft.length;
      const fate = final && there && i === at ? own.maker : d && i < beat.shown ? fateOf(round, i, beat) : "empty";
      return make("div.count-row.is-" + (there ? fate : "absent"), {}, make("span.count-number", {}, String(i + 1)),
        make("span.tape-glyph", { "aria-hidden": "true" }, there ? GLYPHS[fate] ?? "" : ""),
        make("span.count-for", {}, there ? say(last ? "count_row_free" : "count_row_check") : say("count_row_none")));
    }));
  }

  function drawBonus(counts, rounds) {
    const made = maker => rounds.filter(round => ownEmit(round)?.maker === maker).length, k = R.header.knobs?.k ?? 0;
    const checked = rounds.filter(round => round.draft.length), all = sum(checked.map(round => round.rows));
    const wasted = all - sum(checked.map(round => round.emit.length));
    write(bonus, "count_bonus", { k, rows: k + 1, rounds: checked.length, bonuses: made("bonus"), fixes: made("correction") });
    write(waste, all ? "count_waste" : "count_waste_none",
      { all, wasted, share: all ? percent(wasted / all) : "–" });
  }

  // -- five meanings of one word
  const table = make("table.count-meanings"), caption = make("caption"), body = make("tbody");
  table.append(caption, make("thead", {}, make("tr", {}, ...["what", "made", "value", "who"].map(name =>
    worded(make("th", { scope: "col" }), "count_head_" + name)))), body);

  const drawMeanings = counts => body.replaceChildren(...meaningsOf(counts).map(([name, value, made]) =>
    make("tr", { "data-rate": name },
      make("th", { scope: "row" }, say("rate_" + name)),
      make("td.count-made", {}, make("span", {}, say("rate_" + name + "_is")), make("b", {}, made)),
      make("td.count-value", {}, short(value, name === "length" || name === "kept" ? 2 : 3)),
      make("td.count-who", {}, say("rate_" + name + "_who")))));

  // -- k moved
  const moved = shareChart("moved"), slider = make("input.count-range", { type: "range", min: 1, max: 1, step: 1, value: 1 });
  worded(slider, "count_first", "aria-label");
  const level = make("output.view-level"), worth = make("p.count-told.count-worth");
  slider.addEventListener("input", () => {
    most = slider.value === slider.max ? 0 : Number(slider.value);
    draw();
  });
  moved.node.append(make("div.view-slider", {}, worded(make("span"), "count_first"), slider, level), worth);

  function drawMoved(counts, rounds) {
    const places = Math.max(1, R.header?.knobs?.k ?? 1, counts.offered.length), first = most ? Math.min(most, places) : places;
    Object.assign(slider, { max: places, value: first });
    level.textContent = `${first} / ${places}`;
    const { step, middle } = moved.frame(places), half = Math.min(16, step * 0.32), dots = [], spoken = [];
    for (let i = 0; i < places; i++) {
      const n = counts.reached[i] ?? 0, hits = counts.kept[i] ?? 0, x = middle(i),
        { accepted, drafted } = firstOnly(rounds, i + 1);
      if (n) moved.bar(x, half, hits / n, null, i < first ? "curves-bar" : "curves-bar.is-few");
      if (drafted) dots.push([x, moved.height(accepted / drafted), i + 1 === first]);
      spoken.push(`${i + 1}: ${hits}/${n}, ${accepted}/${drafted}`);
    }
    if (dots.length) moved.field.append(svg("path.curves-line", { d: "M" + dots.map(([x, y]) => `${x} ${y}`).join("L") }));
    for (const [x, y, here] of dots)
      moved.field.append(svg("circle.count-dot" + (here ? ".is-here" : ""), { cx: x, cy: y, r: here ? 6 : 3.5 }));
    moved.title.textContent = say("count_moved");
    moved.note.textContent = say("count_moved_note");
    moved.field.setAttribute("aria-label", [say("count_moved"), ...spoken].join(", "));
    const { drafted, accepted, tokens, passes } = firstOnly(rounds, first), n = counts.offered[first - 1] ?? 0,
      hits = counts.kept[first - 1] ?? 0;
    write(worth, drafted ? "count_worth" : "count_nothing", { first, drafted, accepted, tokens, passes, hits, n,
      rate: short(drafted ? accepted / drafted : null, 3), length: rate(passes ? tokens / passes : 0),
      share: short(n ? hits / n : null) });
    if (!drafted) return;
    const chain = rounds.every(round => round.draft.every(d => (d.parent ?? -1) === d.slot - 1));
    worth.append(" ", say(chain ? "count_worth_chain" : "count_worth_tree"));
    slider.setAttribute("aria-valuetext", worth.textContent);
  }

  // -- a high rate is not speed: the recorded methods and this run
  const scatter = svg("svg", { viewBox: "0 0 360 182", role: "img" }), silent = make("p.count-told.count-silent"),
    badge = make("span.view-badge");
  const speedless = make("figure.curves-figure.is-scatter", {}, make("figcaption", {}, worded(make("b"), "count_scatter")),
    scatter,
    worded(make("p.curves-note"), "count_scatter_note"), badge, silent);

  function drawScatter(counts, rounds) {
    const point = (name, c, here) => [name, c.accepted / c.tested, c.tokens / c.passes, here];
    const points = Object.entries(experiment.runs["0"]).filter(([, c]) => c.tested).map(([name, c]) => point(name, c, false));
    if (counts.tested) points.push(point(say("fade_series_run"), counts, true));
    const top = Math.max(2, ...points.map(point => point[2])), x = share => 30 + share * 190,
      y = length => 22 + (top - length) / (top - 1) * 120;
    scatter.replaceChildren(svg("line.curves-rule", { x1: 30, x2: 220, y1: y(1), y2: y(1) }),
      svg("line.curves-rule", { x1: 30, x2: 30, y1: y(1), y2: y(top) }),
      ...[1, top].map(length => svg("text.curves-scale", { x: 24, y: y(length) + 4 }, rate(length).replace(/\.00$/, ""))),
      ...[0, 0.5, 1].map(share => svg("text.curves-place", { x: x(share), y: 156 }, share === 0.5 ? ".5" : String(share))),
      svg("text.curves-place", { x: 125, y: 172 }, say("rate_tested")), svg("text.curves-axis", { x: 2, y: 11 }, say("rate_length")));
    points.sort((a, b) => b[2] - a[2]);
    const apart = 14, ats = points.map(point => y(point[2]) + 4);     // labels in a column keep their distance, above the axis
    ats.forEach((at, i) => { ats[i] = Math.max(at, (ats[i - 1] ?? -Infinity) + apart); });
    for (let i = ats.length - 1; i >= 0; i--) ats[i] = Math.min(ats[i], (ats[i + 1] ?? y(1) + apart) - apart);
    for (const [i, [name, share, length, here]] of points.entries()) {
      const at = ats[i];
      scatter.append(svg("path.count-lead", { d: `M${x(share)} ${y(length)}L230 ${at - 4}` }),
        svg("circle.count-dot" + (here ? ".is-here" : ""), { cx: x(share), cy: y(length), r: here ? 6 : 4 }),
        svg("text.count-name", { x: 234, y: at }, `${name}: ${short(share)}, ${rate(length)}`));
    }
    scatter.setAttribute("aria-label",
      [say("count_scatter"), ...points.map(([name, share, length]) => `${name} ${short(share)}, ${rate(length)}`)].join("; "));
    write(silent, "count_silent", { silent: rounds.filter(round => !round.draft.length).length, passes: counts.passes });
    write(badge, "badge_recorded", { machine: experiment.machine, date: experiment.date });
  }

  function draw() {
    const counts = R.counts() ?? NOTHING;
    drawRows(R.beat(), R.round());
    const key = [R.id, R.over(), R.language, most].join();
    if (!R.header || drawn === key) return;
    drawn = key;
    const rounds = R.rounds.slice(0, R.over());
    caption.textContent = say("count_meanings");
    for (const paint of [drawFates, drawBonus, drawMeanings, drawMoved, drawScatter]) paint(counts, rounds);
  }

  return {
    name: "count", draw, speak, begin() { most = 0; drawn = ""; },
    node: make("section.view-count", {},
      make("div.count-part", {}, worded(make("h3"), "count_title"), bar, list, judged),
      make("div.count-part", {}, worded(make("h3"), "count_bonus_title"), rows, bonus, waste),
      table, make("div.view-pair", {}, moved.node, speedless)),
  };
}
