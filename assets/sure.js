// How sure is it: the drafter's confidence in each guess of the round in view and what became of it; what a threshold would
// have saved and lost in this run; and whether the confidences can be believed.

/** Confidences and outcomes of the guesses that met their test, at one position or (0) at all: [[confidence, kept], ...]. */
const testedPairs = (rounds, position = 0) => rounds.flatMap(round => round.draft
  .filter(d => d.confidence != null && (!position || d.depth === position))
  .filter(d => ["kept", "rejected"].includes(round.verify[d.slot].verdict))
  .map(d => [d.confidence, round.verify[d.slot].verdict === "kept"]));

/** engine/metrics.py reliability, number for number. */
function reliability(pairs, bins = 20) {
  const table = Array.from({ length: bins }, () => ({ n: 0, kept: 0, said: 0 }));
  for (const [confidence, kept] of pairs) {
    const entry = table[Math.min(bins - 1, Math.floor(confidence * bins))];
    entry.n += 1;
    entry.kept += Number(kept);
    entry.said += confidence;
  }
  const groups = new Map();                                     // equal confidences win half
  for (const [confidence, kept] of pairs) {
    const group = groups.get(confidence) ?? groups.set(confidence, [0, 0]).get(confidence);
    group[Number(kept)] += 1;
  }
  let wins = 0, good = 0, bad = 0;
  for (const [, [lost, held]] of [...groups].sort(([a], [b]) => a - b)) {
    wins += held * (bad + lost / 2);
    good += held;
    bad += lost;
  }
  const over = (part, whole) => (whole ? part / whole : null);
  return {
    n: pairs.length, bins: table,
    ece: over(sum(table.map(entry => Math.abs(entry.said - entry.kept))), pairs.length),
    brier: over(sum(pairs.map(([confidence, kept]) => (confidence - kept) ** 2)), pairs.length),
    auroc: over(wins, good * bad),
  };
}

/**
 * Rounds cut before the first guess whose confidence lies below a threshold: guesses not sent, accepted ones lost with them;
 * and of the rows that would still be checked, those that give no token.
 */
function cutAt(rounds, threshold) {
  const out = { drafted: 0, held: 0, accepted: 0, lost: 0, rows: 0, wasted: 0 };
  for (const round of rounds.filter(each => each.draft.length)) {
    const gone = new Set(), kept = keptEmits(round);
    for (const d of round.draft) if (d.confidence < threshold || gone.has(d.parent)) gone.add(d.slot);
    const lost = kept.filter(e => gone.has(e.slot)).length, rows = round.rows - gone.size;
    out.drafted += round.draft.length;
    out.held += gone.size;
    out.accepted += kept.length;
    out.lost += lost;
    out.rows += rows;
    out.wasted += rows - (kept.length - lost) - (ownEmit(round) || lost ? 1 : 0);
  }
  return out;
}

const TELLING = 0.3;                                            // a first threshold, at which something is saved and lost
const LITTLE = 200, FEW = 50;                                       // tested guesses: fewer say little about calibration

function mountSure(R) {
  const { say, write } = R;
  const { worded, speak } = speller(R);
  const chart = shareChart("sure"), diagram = shareChart("reliable");
  let threshold = TELLING, drawn = "";

  // -- the threshold: a range input, and the line itself
  const range = make("input.sure-range", { type: "range", min: 0, max: 1, step: 0.01, value: threshold });
  worded(range, "sure_threshold", "aria-label");
  const level = make("output.view-level"), told = make("p.sure-told"), exact = make("p.sure-about");
  const set = value => {
    range.value = threshold = Math.max(0, Math.min(1, Math.round(value * 100) / 100));
    draw();
  };
  range.addEventListener("input", () => set(Number(range.value)));
  const drag = event => {
    const box = chart.field.getBoundingClientRect(), y = (event.clientY - box.top) * (FIELD.tall + FIELD.foot) / box.height;
    set(1 - (y - FIELD.top) / (FIELD.tall - FIELD.top));
  };
  chart.field.addEventListener("pointerdown", event => { chart.field.setPointerCapture(event.pointerId); drag(event); });
  chart.field.addEventListener("pointermove", event => { if (chart.field.hasPointerCapture(event.pointerId)) drag(event); });

  // -- which position the diagram is about
  const position = worded(make("select.sure-position"), "sure_position", "aria-label");
  position.addEventListener("change", draw);
  diagram.head.append(position);
  const figures = make("dl.tape-facts.sure-figures.proof");
  diagram.note.className = "sure-about";
  diagram.node.append(figures);

  /** Dots: confidence before the draw; line: that all up to here are kept; below: what became of each. */
  function drawRound() {
    const { round, beat, slot: chosen } = R.scene();
    const { middle } = chart.frame(Math.max(1, R.header?.knobs?.k ?? 1)), spoken = [];
    const shown = (round?.draft ?? []).slice(0, beat?.shown ?? 0).filter(d => d.confidence != null);
    let chance = 1, path = "", cut = false;
    const y = chart.height(threshold);
    chart.field.append(svg("line.curves-threshold", { x1: FIELD.left, x2: FIELD.wide, y1: y, y2: y }),
      svg("path.sure-grip", { d: `M${FIELD.wide} ${y}l-9 -6v12z` }));
    const marks = [];
    for (const d of shown) {
      const x = middle(d.slot), fate = fateOf(round, d.slot, beat);
      chance *= d.confidence;
      cut ||= d.confidence < threshold;
      path += `${path ? "L" : "M"}${x} ${chart.height(chance)}`;
      spoken.push(`${d.slot + 1}: ${d.confidence.toFixed(2)} ${say("fate_" + fate) ?? ""}${cut ? " " + say("sure_held") : ""}`);
      chart.field.append(svg("text.curves-fate.is-" + fate, { x, y: FIELD.tall + 32 }, GLYPHS[fate] ?? ""));
      marks.push(svg("circle.curves-dot" + (cut ? ".is-held" : "") + (d.slot === chosen ? ".is-here" : ""), { cx: x, cy: chart.height(d.confidence), r: 4 }));
    }
    if (path) chart.field.append(svg("path.curves-line", { d: path }));
    chart.field.append(...marks);
    chart.title.textContent = say("sure_title");
    chart.field.setAttribute("aria-label", [say("sure_title"), ...spoken].join(", "));
    const none = round?.draft.length && round.draft.every(d => d.confidence == null);
    chart.note.textContent = none ? say("sure_none") : say("sure_note");
  }

  /** What the threshold does to the whole run so far. */
  function drawCut(rounds) {
    const { drafted, held, accepted, lost, rows, wasted } = cutAt(rounds, threshold), all = cutAt(rounds, 0),
      sent = R.header?.knobs?.threshold ?? 0;
    const share = (part, whole) => whole ? percent(part / whole) : "–";
    level.textContent = threshold.toFixed(2);
    write(told, drafted ? "sure_cut" : "sure_cut_nothing", { drafted, held, accepted, lost, rows, wasted: share(wasted, rows),
      before: share(all.wasted, all.rows), all: all.rows });
    range.setAttribute("aria-valuetext", `${level.textContent}. ${told.textContent}`);
    write(exact, !sent ? "sure_exact" : threshold < sent ? "sure_below" : "sure_from", { sent });
  }

  /** Confidence against what came of it, in 20 bins of equal width. */
  function drawReliable(rounds) {
    const { n, bins, ece, brier, auroc } = reliability(testedPairs(rounds, Number(position.value))), spoken = [];
    diagram.frame(0);
    const wide = FIELD.wide - FIELD.left - 8, x = share => FIELD.left + share * wide, step = wide / bins.length;
    for (const share of [0, 0.5, 1])
      diagram.field.append(svg("text.curves-place", { x: x(share), y: FIELD.tall + 14 }, share === 0.5 ? ".5" : String(share)));
    diagram.field.append(svg("path.curves-line", { d: `M${x(0)} ${diagram.height(0)}L${x(1)} ${diagram.height(1)}` }));
    diagram.field.append(svg("text.curves-axis", { x: x(0) + 4, y: diagram.height(1) + 13 }, "↑ " + say("sure_axis_came")),
      svg("text.curves-axis.is-end", { x: x(1), y: diagram.height(0) - 5 }, say("sure_axis_said") + " →"));
    bins.forEach((bin, i) => {
      if (!bin.n) return;
      const at = x(bin.said / bin.n), share = bin.kept / bin.n;
      diagram.field.append(diagram.whisker(at, ...interval(bin.kept, bin.n)),
        svg("circle.sure-bin", { cx: at, cy: diagram.height(share), r: Math.min(7, 2 + Math.sqrt(bin.n)) }),
        svg("text.curves-count", { x: x(0) + (i + 0.5) * step, y: FIELD.tall + 30 }, String(bin.n)));
      spoken.push(`${(bin.said / bin.n).toFixed(2)}: ${bin.kept}/${bin.n}`);
    });
    diagram.node.classList.toggle("is-little", n < FEW);
    diagram.title.textContent = say("sure_reliable");
    diagram.field.setAttribute("aria-label", [say("sure_reliable"), ...spoken].join(", "));
    write(diagram.note, !n ? "sure_reliable_nothing" : n < FEW ? "sure_reliable_few" : n < LITTLE ? "sure_reliable_little" : "sure_reliable_note", { n });
    figures.replaceChildren(...Object.entries({ ece, brier, auroc }).map(([name, value]) => make("div", {},
      make("dt", {}, make("b", {}, say("sure_" + name)), " ", say("sure_" + name + "_is")), make("dd", {}, short(value, 3)))));
  }

  function draw() {
    drawRound();
    const key = [R.id, R.language, R.over(), threshold, position.value].join();
    if (drawn === key) return;
    drawn = key;
    const rounds = R.rounds.slice(0, R.over());
    drawCut(rounds);
    drawReliable(rounds);
  }

  /** As many positions to choose from as the run may guess. */
  function offer() {
    const kept = position.value;
    position.replaceChildren(...Array.from({ length: 1 + (R.header?.knobs?.k ?? 0) }, (_, i) =>
      make("option", { value: i }, i ? `${say("slot_guess")} ${i}` : say("sure_all"))));
    position.value = position.querySelector(`[value="${kept}"]`) ? kept : "0";
  }

  chart.node.append(make("div.view-slider", {}, worded(make("span"), "sure_threshold"), range, level), told, exact);
  return {
    name: "sure", draw, point: drawRound,
    node: make("section.view-sure", {}, make("div.view-pair", {}, chart.node, diagram.node)),
    begin() {
      range.value = threshold = R.header.knobs?.threshold || TELLING;
      position.value = "0";
      offer();
    },
    speak() { speak(); offer(); },
  };
}
