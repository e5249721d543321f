// The viewer: tape, player, and one view below them at a time, all about one run.
//
// mountViewer(element, source) fills an empty element. source.words holds one dictionary per language, source.experiment the
// recorded comparison of methods, source.connect(viewer) receives the entrances: viewer.take(message), viewer.speak(language),
// viewer.stop(). Nothing here knows who sends. What a source may promise besides (draws, lanes, recorded) needs a server; views
// do without where it is absent.

function mountViewer(element, source) {
  const R = openRun(source.words);
  const { worded, speak } = speller(R);
  const player = mountPlayer(R, element), tape = mountTape(R);
  const views = [mountCard(R), mountFair(R, source.draws), mountCount(R, source.experiment), mountFade(R, source.experiment), mountSure(R),
                 mountLanes(R, source)];
  const tabs = worded(make("div.view-tabs", { role: "tablist" }), "views", "aria-label");
  let open = views[0];

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

  const path = mountPath(R, source, name => choose(views.find(view => view.name === name)), element);
  element.replaceChildren(path.node, tape.node, player.node, tape.sentence, tape.legend, tabs, ...views.map(view => view.node));
  const shown = hook => (...values) => open[hook]?.(...values);
  const all = hook => (...values) => { for (const view of views) view[hook]?.(...values); };
  R.join(tape, player, path, { begin: all("begin"), add: all("add"), draw: shown("draw"), point: shown("point"), speak: all("speak") },
    { speak() { speak(); element.lang = R.language; } });
  choose(open);
  R.speak(R.language);
  source.connect({ take: R.take, speak: R.speak, stop() { R.stop(); tape.stopped(); } });
}
