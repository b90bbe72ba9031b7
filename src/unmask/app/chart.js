// Charts that answer: values under the pointer, and a legend whose buttons hide and show their curves. All of it is read
// from the curves themselves, so that a chart is no larger for it.
(() => {
  // By chart, the names of curves that were switched off. They stay so when the chart is drawn anew, and are in the link.
  const off = Object.create(null);
  const size = 1000; // of the drawing, both ways

  const axis = (said) => {
    const [low, high, logarithmic] = said.split(" ").map(Number);
    return (share) => (logarithmic ? 10 ** (low + share * (high - low)) : low + share * (high - low));
  };
  const named = (button) => button.textContent.trim();
  const hidden = (chart) => (off[chart.dataset.chart] ??= new Set());
  const spoken = (value) => (Math.abs(value) < 1e-12 ? "0" : String(+value.toPrecision(3)));

  const exact = (value, digits = 4) => (+value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });

  function apply(chart) {
    for (const button of chart.querySelectorAll("li button")) {
      const gone = hidden(chart).has(named(button));
      button.setAttribute("aria-pressed", String(!gone));
      for (const each of chart.querySelectorAll(`.field [data-line="${button.dataset.line}"]`)) each.toggleAttribute("data-off", gone);
    }
  }

  // A view's link says what is off in the charts of its tab, as `off=CHART/NAME`, and the page begins as its own says.
  for (const each of new URLSearchParams(location.search).getAll("off")) {
    const [chart, ...name] = each.split("/");
    (off[chart] ??= new Set()).add(name.join("/"));
  }

  function linked() {
    for (const anchor of document.querySelectorAll(".link a")) {
      const gone = [...(anchor.closest("[role=tabpanel]")?.querySelectorAll(".chart li button[aria-pressed=false]") ?? [])];
      const said = gone.map((button) => `&off=${encodeURIComponent(`${button.closest(".chart").dataset.chart}/${named(button)}`)}`);
      const whole = anchor.getAttribute("href").split("&off=")[0] + said.join("");
      if (anchor.getAttribute("href") !== whole) anchor.setAttribute("href", whole);
    }
  }

  // Which part of the horizontal axis is shown, as shares of it: `zoom.js` says so.
  const part = (chart) => (chart.dataset.view ?? "0 1").split(" ").map(Number);

  // The value of a curve next to a place across; null where it has none.
  function value(path, share, x, y, shown) {
    const points = (path.getAttribute("d").match(/-?[\d.]+/g) ?? []).map(Number);
    const kind = path.dataset.kind;
    if (kind === "ticks") { // three numbers for each: where, from which height, how long
      const places = points.filter((_, place) => place % 3 === 0).map((each) => Math.round(x(each / size)));
      return places.length < 240 ? (places.includes(Math.round(x(share))) ? "1" : "0") : null;
    }
    const pairs = points.flatMap((each, place) => (place % 2 ? [] : [[each, points[place + 1]]]));
    const one = kind === "band" ? pairs.slice(0, pairs.length / 2) : pairs;
    const place = share * size;
    const nearest = one.reduce((best, each) => (Math.abs(each[0] - place) < Math.abs(best[0] - place) ? each : best));
    const reach = Math.max((shown * size) / 50, ...one.slice(1, 3).map((each, index) => (each[0] - one[index][0]) / 2));
    const beyond = place < one[0][0] - reach || place > one.at(-1)[0] + reach;
    if (beyond) return null;
    if (kind === "points") { // each was measured by itself: its own numbers, and where
      const [at, found, error] = JSON.parse(path.dataset.values)[one.indexOf(nearest)];
      return `${exact(found)}${error ? ` ± ${exact(error, 2)}` : ""} at ${exact(at)}`;
    }
    const high = y(1 - nearest[1] / size);
    if (kind !== "band") return spoken(high);
    const low = pairs.slice(pairs.length / 2).find((each) => each[0] === nearest[0]);
    return `${spoken(y(1 - low[1] / size))} to ${spoken(high)}`;
  }

  function made(field, kind) {
    const found = field.querySelector(`.${kind}`);
    return found ?? field.appendChild(Object.assign(document.createElement("div"), { className: kind, ariaHidden: "true" }));
  }

  function leave(chart) {
    for (const each of chart?.querySelectorAll(".cross, .values") ?? []) each.remove();
  }

  let last = null;
  document.addEventListener("pointermove", (event) => {
    const field = event.target.closest?.(".chart .field");
    const chart = field?.closest(".chart") ?? null;
    if (chart !== last) leave(last);
    last = chart;
    if (!chart) return;
    const edges = field.querySelector("svg").getBoundingClientRect();
    const share = (event.clientX - edges.left) / edges.width;
    if (share < 0 || share > 1) return leave(chart);
    const [from, to] = part(chart);
    const place = from + share * (to - from);
    const [x, y] = [axis(chart.dataset.x), axis(chart.dataset.y)];
    const rows = [...chart.querySelectorAll("li button[aria-pressed=true]")].flatMap((button) => {
      const path = chart.querySelector(`.field path[data-line="${button.dataset.line}"]`);
      const found = path && value(path, place, x, y, to - from);
      return found == null ? [] : [[button, found]];
    });
    const [cross, values] = [made(field, "cross"), made(field, "values")];
    cross.style.left = `${100 * share}%`;
    values.replaceChildren(
      Object.assign(document.createElement("b"), { textContent: `${chart.dataset.unit} ${Math.round(x(place)).toLocaleString("en")}` }),
      ...rows.map(([button, found]) => {
        const row = document.createElement("div");
        const words = [named(button), found].map((text) => Object.assign(document.createElement("span"), { textContent: text }));
        row.append(button.querySelector("svg").cloneNode(true), ...words);
        return row;
      }),
    );
    Object.assign(values.style, share < 0.5 ? { left: `calc(${100 * share}% + 0.6rem)`, right: "" } : { left: "", right: `calc(${100 - 100 * share}% + 0.6rem)` });
  });
  document.addEventListener("pointerleave", () => leave(last));

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".chart li button");
    if (!button) return;
    const chart = button.closest(".chart");
    const names = hidden(chart);
    if (!names.delete(named(button))) names.add(named(button));
    apply(chart);
    linked();
  });

  // The curve that is pointed at in the legend stands out.
  const light = (event, on) => {
    const button = event.target.closest?.(".chart li button");
    if (!button) return;
    const chart = button.closest(".chart");
    chart.classList.toggle("lit", on);
    for (const path of chart.querySelectorAll(".field path.line")) path.toggleAttribute("data-lit", on && path.dataset.line === button.dataset.line);
  };
  for (const [name, on] of [["pointerover", true], ["pointerout", false], ["focusin", true], ["focusout", false]]) {
    document.addEventListener(name, (event) => light(event, on));
  }

  // Gradio may replace a chart or change it in place, which forgets what was switched off.
  const drawn = new MutationObserver(() => {
    if (!Object.values(off).some((names) => names.size)) return;
    for (const chart of document.querySelectorAll(".chart[data-chart]")) if (off[chart.dataset.chart]?.size) apply(chart);
    linked();
    drawn.takeRecords();
  });
  drawn.observe(document, { childList: true, subtree: true, attributeFilter: ["d", "data-off", "aria-pressed"] });
})();
