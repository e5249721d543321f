// How sure is it: the drafter's confidence in each guess of the round in view, and what became of it.

function mountSure(R) {
  const { say } = R;
  const chart = shareChart("sure");

  /** Dots: confidence before the draw; line: that all up to here are kept; below: what became of each. */
  function draw() {
    const round = R.round(), beat = R.beat(), threshold = R.header?.knobs?.threshold ?? 0;
    const { middle } = chart.frame(Math.max(1, R.header?.knobs?.k ?? 1)), told = [];
    const shown = (round?.draft ?? []).slice(0, beat?.shown ?? 0).filter(d => d.confidence != null);
    let chance = 1, path = "";
    for (const d of shown) {
      const x = middle(d.slot), fate = fateOf(round, d.slot, beat);
      chance *= d.confidence;
      path += `${path ? "L" : "M"}${x} ${chart.height(chance)}`;
      told.push(`${d.slot + 1}: ${d.confidence.toFixed(2)} ${say("fate_" + fate) ?? ""}`);
      chart.field.append(svg("text.curves-fate.is-" + fate, { x, y: FIELD.tall + 32 }, GLYPHS[fate] ?? ""));
    }
    const line = share => ({ x1: FIELD.left, x2: FIELD.wide, y1: chart.height(share), y2: chart.height(share) });
    if (threshold) chart.field.append(svg("line.curves-threshold", line(threshold)));
    if (path) chart.field.append(svg("path.curves-line", { d: path }));
    for (const d of shown) chart.field.append(svg("circle.curves-dot", { cx: middle(d.slot), cy: chart.height(d.confidence), r: 4 }));
    chart.title.textContent = say("sure_title");
    chart.field.setAttribute("aria-label", [say("sure_title"), ...told].join(", "));
    const none = round?.draft.length && round.draft.every(d => d.confidence == null);
    chart.note.textContent = none ? say("sure_none") : say("sure_note");
  }

  return { name: "sure", node: make("section.view-sure", {}, chart.node), draw };
}
