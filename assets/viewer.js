// The viewer: tape, player, and one view below them at a time, all about one run.
//
// mountViewer(element, source) fills an empty element. source.words holds one dictionary per language, source.experiment the
// recorded comparison of methods, source.connect(viewer) receives the entrances: viewer.take(message), viewer.speak(language),
// viewer.stop(). Nothing here knows who sends. What a source may promise besides (draws, guesses, engine, lanes, recorded)
// needs a server; views do without where it is absent.
// If the source knows of links (assets/link.js), source.link has: address(what is shown) as a string, place(header) that a link
// names, the view to open, the chapter, the depth, hidden names, and what can be hidden.

const DEPTHS = ["first", "working", "proof"];                   // how much is told: the style hides the rest

function mountViewer(element, source) {
  const R = Object.assign(openRun(source.words), { experiment: source.experiment });
  const { worded, speak } = speller(R);
  const player = mountPlayer(R, element), tape = mountTape(R), log = mountLog(R);
  const known = [mountCard(R), mountWays(R, source), mountFair(R, source.draws), mountCount(R), mountFade(R), mountSure(R), mountLanes(R, source)];
  const views = known.filter(view => !source.link?.hidden.has(view.name));
  const keep = mountKeep(R, element, source.link, known.map(view => view.name),
    () => ({ open: open?.name, chapter: path.at(), depth: depth.value === "working" ? null : depth.value }));
  const tabs = worded(make("div.view-tabs", { role: "tablist" }), "views", "aria-label");
  const depth = worded(make("select.view-depth", {}, ...DEPTHS.map(value => worded(make("option", { value }), "depth_" + value))), "depth", "aria-label");
  depth.addEventListener("change", () => { element.dataset.depth = depth.value; });
  let open = views.find(view => view.name === source.link?.open) ?? views[0];

  for (const view of views) {
    view.node.id = "view-" + view.name;
    view.node.setAttribute("role", "tabpanel");
    view.tab = worded(make("button.view-tab", { type: "button", role: "tab", "aria-controls": view.node.id, "data-view": view.name }), "view_" + view.name);
    view.tab.addEventListener("click", () => choose(view));
    tabs.append(view.tab);
    player.bind(Object.fromEntries(Object.entries(view.keys ?? {}).map(([key, act]) => [key, () => { choose(view); act(); }])));
  }
  tabs.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(views[(views.indexOf(open) + step + views.length) % views.length]).tab.focus();
  });

  /** Open a view; what is closed is not drawn. */
  function choose(view) {
    open = view;
    for (const each of views) {
      each.tab.setAttribute("aria-selected", String(each === view));
      each.tab.tabIndex = each === view ? 0 : -1;
      each.node.hidden = each !== view;
    }
    for (const hook of ["shown", "draw", "point"]) view[hook]?.();
    return view;
  }

  const path = mountPath(R, source, name => { const view = views.find(each => each.name === name); if (view) choose(view); }, element);
  const shown = hook => (...values) => open?.[hook]?.(...values);
  const all = hook => (...values) => { for (const view of views) view[hook]?.(...values); };
  tape.head.append(depth);
  element.replaceChildren(path.node, tape.node, player.node, tape.sentence, log.node, tape.legend, ...(views.length ? [tabs] : []),
    ...views.map(view => view.node), keep.node);
  player.bind(keep.keys);
  R.join(tape, player, path, { begin: all("begin"), add: all("add"), draw: shown("draw"), point: shown("point"), speak: all("speak") },
    log, keep, { speak() { speak(); element.lang = R.language; }, signs() { element.classList.toggle("no-signs", !R.signs); } });
  if (open) choose(open);
  depth.value = element.dataset.depth = source.link?.depth ?? "working";
  R.speak(R.language);
  if (source.link?.signs === false) R.sign(false);
  if (source.link?.chapter) path.open(source.link.chapter, source.link.names);
  source.connect({ take: R.take, speak: R.speak, stop() { R.stop(); tape.stopped(); } });
}
