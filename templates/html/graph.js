// Zooms, moves and saves the graphs. Without this script they are whole, and scroll.
"use strict";
(() => {
  const pane = document.querySelector(".drawing");
  const graphs = [...pane.querySelectorAll(".graph")];
  const LARGEST = 4, STEP = 1.25, MOVE = 80, CLICK = 4, READABLE = 0.55, SMALLEST = 0.1;
  // Where each graph is looked at: its upper left corner in its own pixels, and how large these are.
  const views = new Map();
  const size = (graph) => ({ width: +graph.getAttribute("width"), height: +graph.getAttribute("height") });
  const shown = () => graphs.find((graph) => getComputedStyle(graph).display !== "none");
  const bound = (value, low, high) => Math.max(low, Math.min(high, value));
  const smallest = (graph) => {
    const { width, height } = size(graph);
    return bound(Math.min(pane.clientWidth / width, pane.clientHeight / height), SMALLEST, 1);
  };

  // Keeps the graph in sight: where there is room, it is in the middle.
  const axis = (at, length, room) => (room >= length ? (length - room) / 2 : bound(at, 0, length - room));

  const draw = (graph) => {
    const view = views.get(graph), { width, height } = size(graph);
    view.scale = bound(view.scale, smallest(graph), LARGEST);
    const [wide, high] = [pane.clientWidth / view.scale, pane.clientHeight / view.scale];
    view.x = axis(view.x, width, wide);
    view.y = high >= height ? 0 : bound(view.y, 0, height - high);
    graph.setAttribute("viewBox", [view.x, view.y, wide, high].join(" "));
  };
  const fit = (graph, scale) => {
    views.set(graph, { x: 0, y: 0, scale });
    const { width } = size(graph);
    views.get(graph).x = (width - pane.clientWidth / scale) / 2;
    draw(graph);
  };
  // As wide as the pane, if words are still read then.
  const fitWidth = (graph) => fit(graph, bound(pane.clientWidth / size(graph).width, READABLE, 1));

  const zoom = (factor, x = pane.clientWidth / 2, y = pane.clientHeight / 2) => {
    const graph = shown(), view = views.get(graph), before = view.scale;
    view.scale = bound(before * factor, smallest(graph), LARGEST);
    view.x += x / before - x / view.scale;
    view.y += y / before - y / view.scale;
    draw(graph);
    return view.scale !== before;
  };
  const move = (x, y) => {
    const view = views.get(shown());
    view.x += x / view.scale;
    view.y += y / view.scale;
    draw(shown());
  };

  // The file is the whole graph, and shows it without this page.
  const save = () => {
    const graph = shown().cloneNode(true), { width, height } = size(graph);
    graph.setAttribute("viewBox", `0 0 ${width} ${height}`);
    graph.setAttribute("role", "img");
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = document.title;
    graph.prepend(title);
    // There are no panels in the file.
    graph.querySelectorAll("a").forEach((a) => a.removeAttribute("href"));
    const text = `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(graph)}\n`;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = `${document.querySelector("h1").textContent}.graph.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const deeds = {
    in: () => zoom(STEP),
    out: () => zoom(1 / STEP),
    fit: () => fit(shown(), smallest(shown())),
    width: () => fitWidth(shown()),
    save,
  };
  const keys = {
    "+": deeds.in, "=": deeds.in, "-": deeds.out, _: deeds.out, 0: deeds.fit, 1: deeds.width,
    ArrowLeft: () => move(-MOVE, 0), ArrowRight: () => move(MOVE, 0), ArrowUp: () => move(0, -MOVE), ArrowDown: () => move(0, MOVE),
    PageUp: () => move(0, -0.8 * pane.clientHeight), PageDown: () => move(0, 0.8 * pane.clientHeight),
  };
  document.querySelectorAll("[data-do]").forEach((button) => button.addEventListener("click", deeds[button.dataset.do]));
  pane.addEventListener("keydown", (event) => {
    const deed = keys[event.key];
    if (!deed || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    deed();
  });

  pane.addEventListener("wheel", (event) => {
    const lines = event.deltaMode === 1 ? 20 : 1, at = pane.getBoundingClientRect();
    const factor = Math.exp(-bound(event.deltaY * lines, -120, 120) * 0.002);
    // At the smallest and at the largest the page scrolls.
    if (zoom(factor, event.clientX - at.left, event.clientY - at.top) || event.ctrlKey) event.preventDefault();
  }, { passive: false });

  // One pointer moves, two zoom. A pointer that hardly moves clicks on a box.
  const pointers = new Map();
  let moved = 0;
  const apart = () => {
    const [a, b] = [...pointers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  pane.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (pointers.size === 0) moved = 0;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  pane.addEventListener("pointermove", (event) => {
    const from = pointers.get(event.pointerId);
    if (!from) return;
    const before = pointers.size === 2 ? apart() : 0;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved += Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y);
    if (moved <= CLICK) return;
    pane.setPointerCapture(event.pointerId);
    pane.classList.add("held");
    if (pointers.size === 2) {
      const at = pane.getBoundingClientRect(), [a, b] = [...pointers.values()];
      zoom(apart() / Math.max(before, 1), (a.x + b.x) / 2 - at.left, (a.y + b.y) / 2 - at.top);
    }
    move((from.x - event.clientX) / pointers.size, (from.y - event.clientY) / pointers.size);
  });
  const leave = (event) => {
    pointers.delete(event.pointerId);
    if (pointers.size === 0) pane.classList.remove("held");
  };
  pane.addEventListener("pointerup", leave);
  pane.addEventListener("pointercancel", leave);
  pane.addEventListener("click", (event) => {
    if (moved > CLICK) event.preventDefault();
    moved = 0;
  }, true);
  pane.addEventListener("dragstart", (event) => event.preventDefault());

  // A box that gets the focus by a key comes into sight.
  pane.addEventListener("focusin", (event) => {
    const graph = shown(), box = event.target.closest(".graph a");
    if (!box || !box.matches(":focus-visible")) return;
    const { x, y, width, height } = box.getBBox(), view = views.get(graph);
    const [wide, high] = [pane.clientWidth / view.scale, pane.clientHeight / view.scale];
    if (x < view.x || x + width > view.x + wide) view.x = x + width / 2 - wide / 2;
    if (y < view.y || y + height > view.y + high) view.y = y + height / 2 - high / 2;
    pane.scrollTo(0, 0);
    draw(graph);
  });

  const start = () => {
    const graph = shown();
    pane.style.maxHeight = `${Math.max(320, size(graph).height + 24)}px`;
    views.has(graph) ? draw(graph) : fitWidth(graph);
  };
  const every = document.getElementById("every");
  if (every) every.addEventListener("change", start);
  document.querySelector(".zoom").hidden = false;
  pane.classList.add("live");
  start();
  new ResizeObserver(start).observe(pane);
})();
