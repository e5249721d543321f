// Why guesses fade: acceptance by position in the draft. Counts come ready with every round (engine/metrics.py).

function mountFade(R) {
  const { say } = R;
  const chart = shareChart("decay");
  let mode = "survival";
  const modes = ["survival", "conditional"].map(name => {
    const button = make("button.curves-mode", { type: "button" });
    button.addEventListener("click", () => { mode = name; draw(); });
    return [name, button];
  });
  chart.head.append(make("span.curves-modes", { role: "group" }, ...modes.map(pair => pair[1])));
  const toggle = () => { mode = mode === "survival" ? "conditional" : "survival"; draw(); };

  /** One bar a position: rounds that kept it, of those that drafted (or tested) it. */
  function draw() {
    const counts = R.counts(), places = Math.max(1, R.header?.knobs?.k ?? 1);
    const whole = counts ? (mode === "survival" ? counts.offered : counts.reached) : [];
    const { step, middle } = chart.frame(places), told = [];
    for (const [name, button] of modes) {
      button.textContent = say("decay_" + name);
      button.setAttribute("aria-pressed", String(name === mode));
    }
    chart.title.textContent = say("decay_title");
    for (let i = 0; i < places; i++) {
      const x = middle(i), n = whole[i] ?? 0, hits = counts?.kept[i] ?? 0;
      if (!n) continue;
      const share = hits / n, [low, high] = interval(hits, n), half = Math.min(16, step * 0.32);
      told.push(`${i + 1}: ${hits}/${n}`);
      chart.field.append(
        svg("rect.curves-bar", { x: x - half, y: chart.height(share), width: 2 * half, height: chart.height(0) - chart.height(share) }),
        svg("path.curves-whisker", { d: `M${x} ${chart.height(low)}V${chart.height(high)}M${x - 4} ${chart.height(low)}h8M${x - 4} ${chart.height(high)}h8` }),
        svg("text.curves-count", { x, y: FIELD.tall + 27 }, step > 34 ? `${hits}/${n}` : String(hits)),
        ...(step > 34 ? [] : [svg("text.curves-count", { x, y: FIELD.tall + 38 }, String(n))]));
    }
    chart.field.setAttribute("aria-label", [say("decay_" + mode), ...told].join(", "));
    chart.note.textContent = told.length ? say(`decay_${mode}_note`) : say("decay_empty");
  }

  return { name: "fade", node: make("section.view-fade", {}, chart.node), draw, keys: { d: toggle } };
}
