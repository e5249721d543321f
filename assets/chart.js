// A chart of shares by position in the draft: what the views of counting, fading and confidence have in common.

const FIELD = { wide: 360, tall: 128, left: 30, top: 8, foot: 40 };  // drawing units

/** A figure with a title, a field from 0 to 1 over `places` positions, `foot` units of numbers below it, and a note. */
function shareChart(name, wide = FIELD.wide, foot = FIELD.foot) {
  const title = make("b"), note = make("p.curves-note"), head = make("figcaption", {}, title);
  const field = svg("svg", { viewBox: `0 0 ${wide} ${FIELD.tall + foot}`, role: "img" });
  const height = share => FIELD.top + (1 - share) * (FIELD.tall - FIELD.top);

  /** An empty field; gives the width of a position and its middle. */
  function frame(places) {
    const step = (wide - FIELD.left) / Math.max(places, 1), middle = i => FIELD.left + (i + 0.5) * step;
    field.replaceChildren(...[0, 0.5, 1].flatMap(share => [
      svg("line.curves-rule", { x1: FIELD.left, x2: wide, y1: height(share), y2: height(share) }),
      svg("text.curves-scale", { x: FIELD.left - 6, y: height(share) + 4 }, share === 0.5 ? ".5" : String(share))]));
    for (let i = 0; i < places; i++)
      field.append(svg("text.curves-place", { x: middle(i), y: FIELD.tall + 14 }, String(i + 1)));
    return { step, middle };
  }

  /** A bar of a share around x, with its 95 % interval where it is counted. */
  function bar(x, half, share, range, kind = "curves-bar") {
    field.append(svg("rect." + kind, { x: x - half, y: height(share), width: 2 * half, height: height(0) - height(share) }));
    if (range) field.append(whisker(x, ...range));
  }
  const whisker = (x, low, high) => svg("path.curves-whisker", {
    d: `M${x} ${height(low)}V${height(high)}M${x - 4} ${height(low)}h8M${x - 4} ${height(high)}h8` });

  const node = make("figure.curves-figure.is-" + name, {}, head, field, note);
  return { node, head, title, note, field, height, frame, bar, whisker };
}

/** Buttons of which one is pressed. */
function switcher(names, act) {
  const buttons = names.map(name => {
    const button = make("button.curves-mode", { type: "button", "data-value": name });
    button.addEventListener("click", () => act(name));
    return [name, button];
  });
  return {
    node: make("span.curves-modes", { role: "group" }, ...buttons.map(pair => pair[1])),
    draw(chosen, told) {
      for (const [name, button] of buttons) {
        button.textContent = told(name);
        button.setAttribute("aria-pressed", String(name === chosen));
      }
    },
  };
}

/** .762 for 0.762, 1.00 for 1: a share as short as it can be. */
const short = (share, places = 2) => share == null ? "–" : share.toFixed(places).replace(/^0/, "");
