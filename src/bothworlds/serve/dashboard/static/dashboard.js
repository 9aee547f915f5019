// Live pages and charts of the dashboard. Everything here is also there without it.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main) return;
  const pulse = document.getElementById("pulse");
  const [path, query = ""] = main.dataset.live.split("?");
  const base = path === "/" ? "" : path;
  const at = (name) => `${base}/${name}${query ? "?" + query : ""}`;
  const say = (text, state) => {
    if (pulse.textContent !== text) pulse.textContent = text;
    pulse.dataset.state = state;
  };

  // ---- parts

  const waiting = new Map();
  const busy = (place) => {
    if (place.contains(document.activeElement) && document.activeElement !== document.body) return true;
    const chosen = document.getSelection();
    return chosen && !chosen.isCollapsed && place.contains(chosen.anchorNode);
  };
  const put = (name, text) => {
    const place = document.getElementById(`part-${name}`);
    if (!place) return;
    // Do not interrupt readers that use a keyboard or select text.
    if (busy(place)) {
      waiting.set(name, text);
      return;
    }
    waiting.delete(name);
    const open = [...place.querySelectorAll("details")].map((each) => each.open);
    const across = [...place.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    place.innerHTML = text;
    place.querySelectorAll("details").forEach((each, n) => (each.open = Boolean(open[n])));
    place.querySelectorAll(".scroll").forEach((each, n) => (each.scrollLeft = across[n] || 0));
    localise();
    if (name === "arms") narrow();
  };
  // The page's own scheme and host, which a proxy may have changed.
  const localise = () => {
    for (const each of document.querySelectorAll("pre[data-origin]")) {
      each.firstChild.textContent = each.firstChild.textContent.replaceAll(each.dataset.origin, location.origin);
      each.dataset.origin = location.origin;
    }
  };
  localise();

  // ---- many arms: the first eight, and a filter

  const FEW = 8;
  const filter = document.getElementById("filter");
  const narrow = () => {
    const rows = [...document.querySelectorAll("#part-arms tbody tr")];
    if (!filter || rows.length <= FEW) return;
    const wanted = filter.value.trim().toLowerCase();
    const all = document.getElementById("all-arms").checked;
    rows.forEach((row, n) => {
      const name = row.querySelector("th").textContent.toLowerCase();
      row.hidden = wanted ? !name.includes(wanted) : !all && n >= FEW;
    });
  };
  if (filter) {
    filter.closest("p").hidden = false;
    filter.addEventListener("input", narrow);
    document.getElementById("all-arms").addEventListener("change", narrow);
    narrow();
  }
  const take = (parts) => {
    for (const [name, text] of [...waiting]) if (!(name in parts)) put(name, text);
    for (const [name, text] of Object.entries(parts)) put(name, text);
  };

  // ---- charts

  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const drawn = new Map();
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dashes = [[], [6, 2], [2, 2], [8, 2, 2, 2]];
  // Seconds between two marks; labels show no less than a second.
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 5, 10, 30, 90, 365].map((days) => days * 86400)];
  const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1 %" : share < 1 && share > 0.999 ? "> 99.9 %" : `${Number((100 * share).toFixed(1))} %`);
  const moments = (_, splits, axis, space, step) =>
    splits.map((each) => {
      const [day, clock] = new Date(each * 1e3).toISOString().split("T");
      if (step >= 86400) return day;
      if (clock.startsWith("00:00:00")) return day.slice(5);
      return clock.slice(0, step < 60 ? 8 : 5);
    });
  // An arm without recent feedback shows the last value it had.
  const newest = (plot) => plot.setLegend({ idxs: plot.data.map((line) => line.findLastIndex((v) => v != null)) });
  const options = (found, width) => {
    const ink = style("--quiet");
    const grid = { stroke: style("--line"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    return {
      width,
      height: 240,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { y: { range: found.range } },
      // Room for the right half of the last date.
      padding: [null, 36, null, null],
      axes: [
        { ...axis, space: 70, size: 32, incrs: STEPS, values: moments, label: "time (UTC)", labelSize: 18 },
        { ...axis, size: 50, values: found.percent ? (_, splits) => splits.map(percent) : undefined, label: found.axis, labelSize: 18 },
      ],
      cursor: { drag: { x: true, y: false } },
      legend: { live: true },
      // Without a pointer over the chart, the legend shows the newest values.
      hooks: { setCursor: [(plot) => plot.cursor.idx == null && newest(plot)] },
      series: [
        { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
        ...found.series.map((each) => ({
          label: each.label,
          stroke: style(`--${each.colour}`),
          dash: dashes[Number(each.colour.slice(1)) % 4],
          width: 1.5,
          points: { show: false },
          value: (_, v) => (v == null ? "–" : found.percent ? percent(v) : v.toPrecision(3)),
        })),
      ],
    };
  };
  let shown = null;
  const draw = () => {
    if (!shown || typeof uPlot === "undefined") return;
    for (const figure of figures) {
      const found = shown[figure.dataset.chart];
      const place = figure.querySelector(".canvas");
      if (!found || found.x.length < 2) continue;
      const data = [found.x, ...found.series.map((each) => each.y)];
      const kind = found.series.map((each) => each.label).join("\n");
      const before = drawn.get(figure);
      if (before && before.kind === kind) {
        before.plot.setScale("y", { min: found.range[0], max: found.range[1] });
        before.plot.setData(data);
        if (before.plot.cursor.idx == null) newest(before.plot);
        continue;
      }
      if (before) before.plot.destroy();
      place.replaceChildren();
      figure.classList.add("drawn");
      const plot = new uPlot(options(found, place.clientWidth), data, place);
      place.querySelector("canvas").setAttribute("role", "img");
      place.querySelector("canvas").setAttribute("aria-label", "Chart; the table below has its numbers");
      newest(plot);
      drawn.set(figure, { plot, kind });
    }
  };
  const redraw = () => {
    for (const { plot } of drawn.values()) plot.destroy();
    drawn.clear();
    draw();
  };
  let chart = -1;
  const charts = async (last) => {
    if (last === chart || !figures.length) return;
    chart = last;
    const answer = await fetch(at("chart.json"));
    if (!answer.ok) return;
    shown = await answer.json();
    draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => {
    for (const [figure, { plot }] of drawn) {
      const width = figure.querySelector(".canvas").clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: 240 });
    }
  }).observe(main);

  // ---- live, by events; by asking again where they fail

  const TRIES = 10;
  let failures = 0;
  const poll = async (tries) => {
    if (tries === TRIES) return follow();
    try {
      const answer = await fetch(at("parts"));
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const found = await answer.json();
      take(found.parts);
      await charts(found.chart);
      say("polling", "polling");
    } catch {
      say("not connected", "lost");
    }
    setTimeout(poll, 3000, tries + 1);
  };
  const follow = () => {
    const have = [...document.querySelectorAll("[data-part]")].map((each) => `${each.dataset.part}:${each.dataset.is}`);
    const events = new EventSource(at("live") + (query ? "&" : "?") + "have=" + have.join(","));
    events.addEventListener("open", () => {
      failures = 0;
      say("live", "live");
    });
    events.addEventListener("parts", (event) => take(JSON.parse(event.data)));
    events.addEventListener("chart", (event) => charts(Number(event.data)).catch(() => {}));
    events.addEventListener("error", () => {
      failures += 1;
      say("not connected", "lost");
      if (events.readyState === EventSource.CLOSED || failures > 1) {
        events.close();
        poll(0);
      }
    });
    addEventListener("pagehide", () => events.close());
  };
  charts(0).catch(() => {});
  follow();
})();
