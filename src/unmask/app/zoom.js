// Charts of which a part can be shown: drag across one, or use its buttons. What was zoomed stays so when the chart is
// drawn anew over the same axis. Nothing is asked of the server: the drawing is a window onto the same curves.
(() => {
  const views = {}; // by chart: the axis it had, and the ends of the part shown, as shares of it
  const size = 1000; // of the drawing
  const least = 0.01; // of the axis
  const far = 8; // pixels that make a drag

  const view = (chart) => {
    const found = views[chart.dataset.chart];
    return found?.axis === chart.dataset.x ? found : null;
  };
  const round = (value) => (Math.abs(value) < 1e-12 ? "0" : (+value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 }));

  // Round numbers between two ends: multiples of 1, 2 or 5 times a power of ten; or powers of two, where they fit.
  function marks(low, high, logarithmic) {
    const double = Math.log10(2);
    const powers = [Math.ceil(low / double - 1e-9), Math.floor(high / double + 1e-9)];
    if (logarithmic && powers[1] - powers[0] >= 2) {
      const stride = Math.max(1, Math.ceil((powers[1] - powers[0]) / 9));
      const count = Math.floor((powers[1] - powers[0]) / stride) + 1;
      return Array.from({ length: count }, (_, place) => (powers[0] + place * stride) * double);
    }
    const [first, last] = logarithmic ? [10 ** low, 10 ** high] : [low, high];
    const rough = 10 ** Math.floor(Math.log10((last - first) / 4));
    const step = rough * [1, 2, 5, 10].find((factor) => (last - first) / (factor * rough) <= 5.5);
    const found = [];
    for (let mark = Math.ceil(first / step - 1e-9); mark <= last / step + 1e-9; mark += 1) found.push(mark * step);
    if (logarithmic) return found.filter((mark) => mark > 0).map(Math.log10);
    const whole = found.filter((mark) => Math.abs(mark - Math.round(mark)) < 1e-9); // there is no half step
    return whole.length ? whole : found;
  }

  function set(node, name, value) {
    if (node && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }

  function show(chart) {
    const [from, to] = [view(chart)?.from ?? 0, view(chart)?.to ?? 1];
    const whole = from === 0 && to === 1;
    const [low, high, logarithmic] = chart.dataset.x.split(" ").map(Number);
    const [left, right] = [low + from * (high - low), low + to * (high - low)];
    const said = (mark) => (logarithmic ? 10 ** mark : mark);
    if (whole) delete chart.dataset.view;
    else chart.dataset.view = `${from} ${to}`;
    set(chart.querySelector(".field > svg"), "viewBox", `${size * from} 0 ${size * (to - from)} ${size}`);
    set(chart.querySelector(".zeros"), "style", whole ? "" : `left:${(-100 * from) / (to - from)}%;width:${100 / (to - from)}%`);
    chart.querySelector(".columns.part")?.remove();
    const tool = (name) => chart.querySelector(`[data-zoom="${name}"]`);
    for (const name of ["part", "out", "all"]) tool(name).hidden = whole;
    tool("in").disabled = (to - from) / 2 < least;
    const words = whole ? "" : `${chart.dataset.unit} ${round(Math.round(said(left)))} to ${round(Math.round(said(right)))}`;
    const output = chart.querySelector("output.part");
    if (output.textContent !== words) output.textContent = words;
    if (whole) return;
    const columns = Object.assign(document.createElement("div"), { className: "columns part", ariaHidden: "true" });
    columns.append(
      ...marks(left, right, logarithmic).map((mark) => {
        const span = Object.assign(document.createElement("span"), { textContent: round(said(mark)) });
        span.style.left = `${(100 * (mark - left)) / (right - left)}%`;
        return span;
      }),
    );
    chart.querySelector(".field").append(columns);
    const slider = tool("part");
    slider.value = to - from < 1 ? (1000 * from) / (1 - (to - from)) : 0;
    slider.setAttribute("aria-valuetext", words);
  }

  function zoom(chart, from, to) {
    const wide = Math.min(Math.max(to - from, least), 1);
    const start = Math.min(Math.max(from, 0), 1 - wide);
    if (wide > 0.999) delete views[chart.dataset.chart];
    else views[chart.dataset.chart] = { axis: chart.dataset.x, from: start, to: start + wide };
    show(chart);
    drawn.takeRecords();
  }

  const shown = (chart) => (chart.dataset.view ?? "0 1").split(" ").map(Number);

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".chart button[data-zoom]");
    if (!button) return;
    const chart = button.closest(".chart");
    const [from, to] = shown(chart);
    const [middle, wide] = [(from + to) / 2, to - from];
    const factor = { in: 0.25, out: 1 }[button.dataset.zoom];
    if (factor === undefined) zoom(chart, 0, 1);
    else zoom(chart, middle - factor * wide, middle + factor * wide);
    // A button that is gone or asleep must not take the keyboard with it.
    if (button.hidden) chart.querySelector('[data-zoom="in"]').focus();
    else if (button.disabled) chart.querySelector('[data-zoom="out"]').focus();
  });
  document.addEventListener("input", (event) => {
    const slider = event.target.closest?.(".chart input[data-zoom]");
    if (!slider) return;
    const chart = slider.closest(".chart");
    const [from, to] = shown(chart);
    const start = (slider.value / 1000) * (1 - (to - from));
    zoom(chart, start, start + to - from);
  });

  // A drag across. On a touch screen a finger that moves up or down scrolls the page, which ends it (`touch-action`).
  let drag = null;
  const share = (event) => {
    const edges = drag.svg.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - edges.left) / edges.width, 0), 1);
  };
  const end = () => {
    drag?.brush.remove();
    drag = null;
  };
  document.addEventListener("pointerdown", (event) => {
    const field = event.target.closest?.(".chart .field");
    if (!field || event.button !== 0 || !event.isPrimary) return;
    drag = { chart: field.closest(".chart"), svg: field.querySelector("svg"), x: event.clientX, pointer: event.pointerId };
    drag.brush = Object.assign(document.createElement("div"), { className: "brush" });
    drag.first = share(event);
    field.append(drag.brush);
    if (event.pointerType === "mouse") event.preventDefault(); // or the words of the axis would be marked
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag || event.pointerId !== drag.pointer) return;
    const [low, high] = [drag.first, share(event)].sort((one, other) => one - other);
    Object.assign(drag.brush.style, { left: `${100 * low}%`, width: `${100 * (high - low)}%` });
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag || event.pointerId !== drag.pointer) return;
    const { chart, first, x } = drag;
    const last = share(event);
    end();
    if (Math.abs(event.clientX - x) < far) return;
    const [from, to] = shown(chart);
    const [low, high] = [first, last].sort((one, other) => one - other).map((each) => from + each * (to - from));
    zoom(chart, low, high);
  });
  document.addEventListener("pointercancel", end);
  document.addEventListener("keydown", (event) => event.key === "Escape" && end());
  document.addEventListener("dblclick", (event) => {
    const chart = event.target.closest?.(".chart .field")?.closest(".chart");
    if (chart) zoom(chart, 0, 1);
  });

  // A chart that was drawn anew is whole again, until it is told otherwise.
  const drawn = new MutationObserver(() => {
    for (const key of Object.keys(views)) {
      for (const chart of document.querySelectorAll(`.chart[data-chart="${CSS.escape(key)}"]`)) {
        if (!view(chart)) delete views[key];
        show(chart);
      }
    }
    drawn.takeRecords();
  });
  drawn.observe(document, { childList: true, subtree: true, attributeFilter: ["viewBox", "data-x"] });
})();
