"use strict";
(() => {
  const say = (text) => { document.getElementById("said").textContent = text; };

  // Theme: what the reader chose, else what the system prefers. Storage may be forbidden for files.
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const remembered = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("holdfast-theme");
      localStorage.setItem("holdfast-theme", value);
    } catch { /* the choice lasts as long as the page */ }
    return null;
  };
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const show = () => { toggle.textContent = current() === "dark" ? "Light theme" : "Dark theme"; };
  const kept = remembered();
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  toggle.addEventListener("click", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    remembered(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
  toggle.hidden = false;

  // Tables: sorted by a click on a header, filtered by a word.
  const words = new Intl.Collator(undefined, { numeric: true });
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const order = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
    return words.compare(a, b);
  };
  const sort = (table, column, direction) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    const known = (value) => typeof value === "number" || value !== "–";
    // Unknown values stay below, whichever way the rest is sorted.
    rows.sort((a, b) => (known(b[0]) - known(a[0])) || direction * order(a[0], b[0]));
    body.append(...rows.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((head, number) => {
      head.setAttribute("aria-sort", number !== column ? "none" : direction > 0 ? "ascending" : "descending");
    });
  };
  const quote = (text) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
  const csv = (table) => [...table.rows].filter((row) => !row.hidden)
    .map((row) => [...row.cells].map((cell) => quote(cell.dataset.v ?? cell.textContent)).join(",")).join("\n") + "\n";

  document.querySelectorAll("[data-table]").forEach((box, number) => {
    const table = box.querySelector("table");
    const tools = box.querySelector(".tools");
    const rows = [...table.tBodies[0].rows];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        sort(table, column, direction);
        say(`Sorted by ${button.textContent}, ${direction > 0 ? "ascending" : "descending"}.`);
      });
    });
    const input = tools.querySelector("input");
    const count = tools.querySelector(".count");
    input.setAttribute("aria-label", `Filter ${table.getAttribute("aria-label")}`);
    input.addEventListener("input", () => {
      const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row) => {
        const text = row.textContent.toLowerCase();
        row.hidden = !asked.every((word) => text.includes(word));
      });
      const left = rows.filter((row) => !row.hidden).length;
      count.textContent = asked.length ? `${left} of ${rows.length} rows` : "";
    });
    tools.querySelector(".save").addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
      link.download = `table-${number + 1}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    tools.hidden = rows.length < 5;
    input.parentNode.hidden = rows.length < 10;
  });

  // A link to a folded section opens it.
  const unfold = () => {
    const folded = location.hash.length > 1 && document.getElementById(location.hash.slice(1))?.querySelector(":scope > details.folded");
    if (folded) folded.open = true;
  };
  window.addEventListener("hashchange", unfold);
  document.querySelectorAll("nav a").forEach((link) => link.addEventListener("click", () => setTimeout(unfold)));
  unfold();

  // Values under the pointer, without the browser's delay. Without this script the titles still do it.
  const tip = document.getElementById("tip");
  document.querySelectorAll("svg.figure").forEach((figure) => {
    const title = figure.querySelector(":scope > title");
    figure.setAttribute("aria-label", title.textContent);
    figure.setAttribute("aria-describedby", figure.querySelector(":scope > desc").id);
    figure.removeAttribute("aria-labelledby");
    title.remove();
    figure.querySelectorAll("title").forEach((inner) => {
      inner.parentNode.dataset.tip = inner.textContent;
      inner.remove();
    });
    figure.addEventListener("pointermove", (event) => {
      const mark = event.target.closest("[data-tip]");
      tip.hidden = !mark;
      if (!mark) return;
      tip.textContent = mark.dataset.tip;
      const { width, height } = tip.getBoundingClientRect();
      const above = event.clientY - height - 14;
      tip.style.left = `${Math.max(4, Math.min(event.clientX - width / 2, window.innerWidth - width - 4))}px`;
      tip.style.top = `${above > 4 ? above : event.clientY + 18}px`;
    });
    figure.addEventListener("pointerleave", () => { tip.hidden = true; });
  });
})();
