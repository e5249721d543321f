// The player: it moves the playhead, by itself, by buttons and by keys.

const PACE = { draft: 260, check: 620, verdict: 300, final: 460, rest: 900 };   // slow motion, ms
const SPEEDS = ["slow", 0.1, 0.25, 0.5, 1];                                      // 1 = as long as it took
const STOPS = ["never", "rejected", "bonus", "final"];

/** How sure the drafter was of a guess: its own word, or else the probability it gave. */
const sureOf = d => d.confidence ?? d.q_own_tok ?? null;

function mountPlayer(R, element) {
  const { worded, speak } = speller(R);
  const button = (name, sign, act) => {
    const node = worded(make("button.player-step." + name, { type: "button" }, sign), name === "keys" ? "keys" : "player_" + name, "aria-label");
    worded(node, name === "keys" ? "keys" : "player_" + name, "title");
    node.addEventListener("click", act);
    return node;
  };
  const there = new Set();                                    // what this run has to jump to
  let speed = "slow", stop = "never", budget = 0, before = 0, ticking = false;

  // -- what stands there
  const play = make("button.tape-play", { type: "button" });
  const scrub = worded(make("input.tape-scrub", { type: "range", min: 0, max: 0, value: 0, step: 1 }), "scrub", "aria-label");
  const marks = make("span.player-marks", { "aria-hidden": "true" }), track = make("span.player-track", {}, scrub, marks);
  const place = make("span.tape-place"), pace = make("span.tape-pace");
  const choose = (name, values, told, act) => {
    const node = worded(make("select.player-" + name, {}, ...values.map(value => worded(make("option", { value }), told(value)))), "player_" + name, "aria-label");
    node.addEventListener("change", () => act(node.value));
    return node;
  };
  const speeds = choose("speed", SPEEDS, value => "speed_" + String(value).replace(".", "_"), value => {
    speed = value === "slow" ? value : Number(value);
    budget = 0;
    run();
  });
  const stops = choose("stop", STOPS, value => "stop_" + value, value => { stop = value; });
  const jumps = [["rejection", "✗", () => jump("rejected", 1)], ["bonus", "★", () => jump("bonus", 1)], ["longest", "⇥", longest], ["unsure", "?", unsure]]
    .map(([name, sign, act]) => {
      const node = make("button.player-jump", { type: "button" }, make("span", { "aria-hidden": "true" }, sign + " "), worded(make("span"), "jump_" + name));
      node.addEventListener("click", act);
      return [name, node];
    });
  const list = make("dl"), keys = closing(worded, make("dialog.keep-dialog.player-keys", {}, worded(make("h3"), "keys"), list));
  const node = make("div.tape-transport", {},
    make("div.player-main", {},
      make("span.player-steps", {}, button("round_back", "«", () => step("round", -1)), button("token_back", "‹", () => step("token", -1))),
      play,
      make("span.player-steps", {}, button("token_on", "›", () => step("token", 1)), button("round_on", "»", () => step("round", 1))),
      track, place),
    make("div.player-more", {}, speeds, stops, make("span.player-jumps", {}, worded(make("span"), "jump_to"), ...jumps.map(pair => pair[1])), pace,
      button("keys", "?", () => keys.showModal())),
    keys);

  // -- moving
  function run() {
    if (ticking || !R.playing || R.held) return;
    ticking = true;
    before = performance.now();
    requestAnimationFrame(tick);
  }

  function tick(now) {
    ticking = false;
    if (!R.playing || R.held || !element.isConnected) return;
    budget += Math.min(1000, now - before);                     // a tab that was hidden does not rush
    before = now;
    let moved = false;
    while (R.at + 1 < R.beats.length && budget >= wait()) {
      budget -= wait();
      R.at++;
      moved = true;
      if (stop !== "never" && R.marked(stop)) { R.playing = false; break; }
    }
    if (R.at + 1 >= R.beats.length) { budget = Math.min(budget, 40); if (R.final) R.playing = false; }
    if (moved || !R.playing) R.call("draw");
    ticking = R.playing && (R.at + 1 < R.beats.length || !R.final);
    if (ticking) requestAnimationFrame(tick);
  }

  /** How long the present beat stays on screen: slow motion that quickens after the first rounds, or recorded time. */
  function wait() {
    if (R.at < 0) return 0;
    if (R.at === 0) return Math.min(R.beats[0].ms, PACE.draft / 2);
    const here = R.beats[R.at], turn = here.kind === "final";
    if (speed === "slow" && calm.matches) return turn ? PACE.rest : 0;
    if (speed === "slow") return (PACE[here.kind] + (turn ? PACE.rest : 0)) * (here.round < 3 ? 1 : here.round < 8 ? 0.6 : 0.4);
    const behind = R.final ? 1 : R.rounds.length - here.round;  // a run that goes on must not be left behind
    return behind > 20 ? 0 : here.ms / speed / Math.max(1, behind - 1);
  }

  function halt() {
    R.touched = true;
    R.playing = false;
    budget = 0;
  }

  function toggle() {
    R.touched = true;
    R.playing = !R.playing;
    R.held = false;
    budget = 0;
    if (R.playing && R.at >= R.beats.length - 1 && R.final) R.at = -1;
    R.call("draw");
    run();
  }

  function step(grain, direction) {
    halt();
    R.step(grain, direction);
  }

  function jump(mark, direction) {
    halt();
    if (!R.jump(mark, direction)) R.call("draw");
  }

  /** To the round that kept most guesses. */
  function longest() {
    const kept = R.rounds.map(round => keptEmits(round).length), most = Math.max(0, ...kept);
    halt();
    if (most) R.visit(kept.indexOf(most));
  }

  /** To the guess of which the drafter was least sure: the round where it stands. */
  function unsure() {
    const least = R.rounds.map(round => Math.min(2, ...round.draft.map(d => sureOf(d) ?? 2)));
    const low = Math.min(...least);
    halt();
    if (low > 1) return;
    const index = least.indexOf(low), slot = R.rounds[index].draft.findIndex(d => sureOf(d) === low);
    R.visit(index);
    R.show({ round: index, slot });
  }

  play.addEventListener("click", toggle);
  scrub.addEventListener("input", () => { halt(); R.go(Number(scrub.value)); });

  // -- keys: never inside what takes text, and native controls keep their own
  const taking = "input:not(.tape-scrub), textarea, select, [contenteditable], dialog[open]";
  const bound = {
    " ": toggle, ArrowRight: () => step("token", 1), ArrowLeft: () => step("token", -1),
    "shift+ArrowRight": () => step("phase", 1), "shift+ArrowLeft": () => step("phase", -1),
    ArrowDown: () => step("round", 1), ArrowUp: () => step("round", -1),
    ".": () => jump("rejected", 1), ",": () => jump("rejected", -1), b: () => jump("bonus", 1), "?": () => keys.showModal(),
    Escape: R.unpin,
  };
  for (let i = 1; i <= 9; i++) bound[i] = () => {
    const beat = R.beat();
    if (beat && tokenAt(R.round(), i - 1) !== null && i <= beat.shown) R.pin({ round: beat.round, slot: i - 1 });
  };
  /** Keys of other views: {key: act}. */
  const bind = more => Object.assign(bound, more);
  const SHOWN = [["Space", "play"], ["← →", "token"], ["⇧ ← →", "phase"], ["↑ ↓", "round"], [". ,", "rejection"], ["b", "bonus"], ["1 – 9", "pin"],
                 ["d", "decay"], ["m", "markov"], ["r", "redraw"], ["s", "link"], ["Esc", "unpin"], ["?", "help"]];

  document.addEventListener("keydown", event => {
    const target = event.target;
    if (!element.isConnected || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest?.(taking)) return;
    const inside = element.contains(target), idle = target === document.body || target === document.documentElement;
    if (!inside && !idle) return;
    const arrow = event.key.startsWith("Arrow"), name = (event.shiftKey && arrow ? "shift+" : "") + event.key;
    if (event.key === " " ? target.matches("button, a, summary") : arrow && (target === scrub || target.matches("[role=tab]"))) return;
    if (!(name in bound)) return;
    event.preventDefault();
    bound[name]();
  });

  // -- hooks
  function draw() {
    const beat = R.beat(), label = R.say(R.playing ? "pause" : R.final && R.at >= R.beats.length - 1 ? "replay" : "play");
    play.textContent = (R.playing ? "❚❚" : "▶\uFE0E") + " " + label;
    play.classList.toggle("is-playing", R.playing);
    scrub.max = Math.max(0, R.beats.length - 1);
    scrub.value = Math.max(0, R.at);
    R.write(place, R.final ? "place" : "place_open", { round: beat ? beat.round + 1 : 0, rounds: R.rounds.length });
    pace.textContent = R.held ? R.say("pace_held") : "";
    scrub.setAttribute("aria-valuetext", place.textContent + (beat ? ", " + R.say("beat_" + beat.kind) : ""));
    for (const [name, node] of jumps) node.disabled = !there.has(name);
  }

  /** Chosen tokens on the timeline, where their fate is decided. */
  function point() {
    const refs = [[R.shown, "shown"], ...R.pins.map(pin => [pin, "pin"])];
    marks.replaceChildren(...refs.filter(([ref]) => R.rounds[ref?.round]).map(([ref, kind]) => {
      const mark = make("i.player-" + kind);
      mark.style.left = 100 * R.momentOf(ref) / Math.max(1, R.beats.length - 1) + "%";
      return mark;
    }));
  }

  return {
    node, bind,
    begin() {
      speed = R.header.badge === "measured" ? 1 : "slow";
      speeds.value = String(speed);
      there.clear();
    },
    add(round) {
      if (round.verify.some(v => v.verdict === "rejected")) there.add("rejection");
      if (round.emit.at(-1)?.maker === "bonus") there.add("bonus");
      if (keptEmits(round).length) there.add("longest");
      if (round.draft.some(d => sureOf(d) != null)) there.add("unsure");
    },
    arrive() {
      point();
      if (calm.matches && R.playing) R.at = R.beats.length - 1;
      run();
    },
    hold() { draw(); run(); },
    draw,
    point,
    speak() {
      speak();
      list.replaceChildren(...SHOWN.flatMap(([key, name]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, R.say("key_" + name))]));
      draw();
    },
  };
}
