// The player of the tab "Watch". A run arrives as two texts in which every token carries its step and its bits, and where
// tokens may be taken back all that it was; which of them are shown, which are new and how they are coloured is decided
// here, so that going back and forth asks nobody.
(() => {
  const view = {
    run: null, since: 0, shown: 0, playing: false, settled: false, cancelled: false, waiting: false, timer: null,
    speed: 1, colour: "step",
  };
  const pace = 300; // milliseconds for a step, at speed 1
  const frames = 36; // in which a text is shown at most: of many steps, several at a time
  const shades = 8; // of each colour in page.css
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");

  const sections = () => [...document.querySelectorAll("#watch-runs section")];
  const taken = () => Math.max(0, ...sections().map((section) => +section.dataset.taken));
  const planned = () => Math.max(0, ...sections().map((section) => +section.dataset.planned));
  const finished = () => sections().every((section) => section.dataset.finished === "1");
  const coming = () => !finished() && document.querySelector("#watch-status progress") !== null; // unless cancelled
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  const numbers = (list) => (list ? list.split(" ").map(Number) : []);
  const tags = { new: "mark", gone: "del" };

  // What a token is after so many steps: its text, null where it is masked, the step that made it so, and its bits.
  function version(token, own, taken) {
    const step = +token.dataset.step;
    const bits = numbers(token.dataset.bits);
    // When an answer was found to be over is not recorded: what was not needed after it is empty at the last step.
    if (step === -2 && own === taken) return ["", step, 0];
    if (token.dataset.versions === undefined) return [step < -1 || step >= own ? null : token.dataset.text, step, bits[0]];
    const versions = JSON.parse(token.dataset.versions);
    const last = versions.findLastIndex(([when]) => when < own);
    return last < 0 ? [null, -3, 0] : [versions[last][1], versions[last][0], bits[last]];
  }

  // The colour of a token that stands, as a class of page.css.
  function shade(step, bits, steps) {
    if (step < 0 || view.colour === "none") return "";
    const place = view.colour === "step" ? (shades * step) / Math.max(steps, 1) : bits;
    return `${view.colour}-${Math.min(Math.max(Math.floor(place), 0), shades - 1)}`;
  }

  function draw() {
    const run = sections()[0]?.dataset.run ?? null;
    if (run !== view.run) { // another text: it is followed from its beginning, as it comes
      stop();
      view.run = run;
      view.cancelled = false;
      show(0);
      view.waiting = still.matches;
      if (run !== null && !view.waiting) start();
    }
    if (view.waiting && finished()) { // whoever wants no motion is shown the end of it
      view.waiting = false;
      show(taken());
      view.settled = true;
    }
    if (view.cancelled) show(taken()); // a step that was on its way when it was cancelled may come after that
    const highest = top();
    for (const section of sections()) {
      const own = Math.min(view.shown, +section.dataset.taken);
      paint(section, own);
      write(section.querySelector(".count"), told(section.dataset, own));
      costs(section, own, highest);
    }
    bar(run);
    changed.takeRecords(); // what was changed just now needs no second look
  }

  function write(place, words) {
    if (place && place.textContent !== words) place.textContent = words;
  }

  function paint(section, own) {
    const steps = +section.dataset.planned || +section.dataset.taken;
    for (const token of section.querySelectorAll("[data-step]")) {
      const [found, step, bits] = version(token, own, +section.dataset.taken);
      const open = found === null;
      const text = open ? "_" : found;
      const fresh = !view.settled && step >= 0 && step < own && step >= Math.min(view.since, own - 1);
      const kind = fresh ? (open ? "gone" : "new") : "";
      if (token.textContent !== text || (token.firstElementChild?.localName ?? "") !== (tags[kind] ?? "")) {
        token.replaceChildren(kind ? Object.assign(document.createElement(tags[kind]), { textContent: text }) : text);
      }
      const given = token.dataset.step === "-1" ? "given" : "";
      const look = [given, open ? "open" : shade(step, bits, steps), kind].filter(Boolean).join(" ");
      if (token.className !== look) token.className = look;
    }
  }

  // The controls say where things stand.
  function bar(run) {
    const button = document.querySelector("#watch-play");
    if (!button) return;
    write(button, view.playing ? "Pause" : "Play");
    for (const each of document.querySelectorAll("#watch-play, #watch-back, #watch-step, #watch-scrub, #watch-svg")) {
      each.disabled = run === null;
    }
    const scrub = document.querySelector("#watch-scrub");
    const last = String(Math.max(taken(), planned()));
    if (scrub.max !== last) scrub.max = last;
    if (scrub.value !== String(view.shown)) scrub.value = view.shown;
    const words = run === null ? "" : `step ${view.shown} of ${last}`;
    scrub.setAttribute("aria-valuetext", words);
    write(document.querySelector("#watch-place"), words);
    for (const each of document.querySelectorAll("#watch-colours [data-colour]")) {
      each.hidden = each.dataset.colour !== view.colour;
    }
  }

  // What a run came to after so many steps.
  function told(data, own) {
    const at = (list) => numbers(list)[own - 1];
    const revised = data.evaluations !== undefined;
    const evaluations = own && revised ? at(data.evaluations) : own;
    if (!evaluations) return "nothing revealed yet";
    const valid = at(data.valid);
    const bits = () => at(data.nll) / Math.max(at(data.scored), 1) / Math.log(2);
    const changes = () => `${at(data.gone).toLocaleString("en")} taken back, ${at(data.again).toLocaleString("en")} written again`;
    return [
      plural(evaluations, "evaluation"),
      plural(valid, "token"),
      `${(valid / evaluations).toFixed(2)} tokens per evaluation`,
      revised ? changes() : `${bits().toFixed(3)} bits per token`,
    ].join(" · ");
  }

  // Every step as a bar from one number of tokens to another, as high as their bits per token: its area is what the step
  // cost. With it the bits per token of all steps so far.
  const known = new WeakMap(); // the same for every picture of a run
  function bars(section) {
    const { nll: said, scored: counts } = section.dataset;
    if (known.get(section)?.said !== said) {
      const nll = numbers(said).map((value) => value / Math.log(2));
      const scored = numbers(counts);
      const found = nll.map((total, step) => {
        const [from, before] = step ? [scored[step - 1], nll[step - 1]] : [0, 0];
        const bits = (total - before) / Math.max(scored[step] - from, 1);
        return { from, to: scored[step], bits, mean: total / Math.max(scored[step], 1) };
      });
      const tokens = section.querySelectorAll("[data-step]:not([data-step='-1'])").length || 1;
      known.set(section, { said, found, tokens });
    }
    return known.get(section);
  }

  const top = () => Math.max(1, ...sections().flatMap((section) => bars(section).found.map((each) => each.bits)));

  function costs(section, own, highest) {
    const picture = section.querySelector(".costs svg");
    if (!picture) return;
    const { found, tokens: whole } = bars(section);
    const all = found.slice(0, own);
    const across = (tokens) => ((1000 * tokens) / whole).toFixed(1);
    const up = (bits) => (100 - (96 * bits) / highest).toFixed(1);
    const shapes = all.map(
      (each, step) =>
        `<rect class="${step === own - 1 ? "now" : ""}" x="${across(each.from)}" width="${across(each.to - each.from)}" y="${up(each.bits)}" height="${(100 - up(each.bits)).toFixed(1)}"/>`,
    );
    const line = all.map((each) => `${across((each.from + each.to) / 2)} ${up(each.mean)}`).join(" ");
    const drawing = shapes.join("") + (line ? `<path d="M${line}"/>` : "");
    if (picture.dataset.drawn !== drawing || (drawing && !picture.firstChild)) {
      picture.innerHTML = drawing;
      picture.dataset.drawn = drawing;
    }
    const last = all.at(-1);
    const words = last
      ? `Step ${own}: ${last.bits.toFixed(2)} bits per token · line: mean so far, ${last.mean.toFixed(2)} · full height: ${highest.toFixed(2)}`
      : "Bits per token of each step.";
    write(section.querySelector(".costs figcaption"), words);
  }

  function show(step, since = step - 1) {
    view.shown = step;
    view.since = Math.max(since, 0);
    view.settled = false;
  }

  function tick() {
    const leap = Math.ceil(planned() / frames) || 1;
    if (view.shown < taken()) {
      show(Math.min(view.shown + leap, taken()), view.shown);
    } else if (!coming()) {
      stop();
      view.settled = finished(); // what was newest is as old as the rest now
    }
    draw();
  }

  function start() {
    clearInterval(view.timer);
    view.playing = true;
    view.timer = setInterval(tick, pace / view.speed);
  }

  function stop() {
    clearInterval(view.timer);
    view.playing = false;
  }

  const held = () => { // a person has taken over
    view.cancelled = view.waiting = false;
    stop();
  };

  // The tab begins by itself: once, when its fields are as the link wants them and it is there to be seen.
  const opening = { ready: false, begun: false };
  const shown = new MutationObserver(() => begin());
  function begin() {
    const button = document.querySelector("#watch-generate");
    if (!opening.ready || opening.begun || !button?.offsetParent) return;
    button.click();
  }

  Object.assign(window.unmask, {
    ready() {
      opening.ready = true;
      shown.observe(document.body, { childList: true, subtree: true, attributeFilter: ["style", "class", "hidden"] });
      begin();
    },
    play() {
      const playing = view.playing;
      held();
      if (!playing) {
        if (view.shown >= taken() && !coming()) show(0);
        start();
      }
      draw();
    },
    move(by) {
      held();
      show(Math.min(Math.max(view.shown + by, 0), taken()));
      draw();
    },
    halt() { // cancelled: what was revealed is shown at once
      held();
      view.cancelled = true;
      draw();
    },
    // What `animation.js` makes a picture of.
    runs: () => ({ sections: sections(), steps: taken(), pace: pace / view.speed, frames, version, shade, told, bars, top: top() }),
  });

  const pressed = {
    "watch-play": () => window.unmask.play(),
    "watch-back": () => window.unmask.move(-1),
    "watch-step": () => window.unmask.move(1),
    "watch-svg": () => window.unmask.save("watch.svg", window.unmask.animation(), "image/svg+xml"),
    "watch-generate": () => {
      opening.begun = true;
      shown.disconnect();
    },
  };
  document.addEventListener("click", (event) => pressed[event.target.closest?.("button[id^=watch-]")?.id]?.());
  document.addEventListener("input", ({ target }) => {
    if (target.id !== "watch-scrub") return;
    held();
    show(Math.min(+target.value, taken()));
    draw();
  });
  document.addEventListener("change", ({ target }) => {
    if (target.id === "watch-speed") {
      view.speed = +target.value;
      if (view.playing) start();
    }
    if (target.name === "watch-colour") {
      view.colour = target.value;
      draw();
    }
  });

  // A picture must be in its right state before it is painted, not a moment later. Gradio may replace it or change it in
  // place; what is drawn here changes it once more, and then no longer.
  const inside = (node) => (node.closest ? node : node.parentElement)?.closest("#watch-runs, #watch-player, #watch-colours");
  const changed = new MutationObserver((changes) => changes.some((change) => inside(change.target)) && draw());
  changed.observe(document, {
    childList: true, subtree: true, characterData: true, attributeFilter: ["data-run", "data-taken", "data-step", "data-text", "data-versions"],
  });
})();
