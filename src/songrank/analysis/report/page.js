"use strict";

// Tooltips: the mark nearest to the pointer, or the one that the arrow keys have come to.
const tip = document.getElementById("tip");
let here = null;

function show(mark) {
  hide();
  here = mark;
  here.classList.add("here");
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  place();
}

function place() {
  if (!here) return;
  const box = here.getBoundingClientRect();
  const left = box.left + box.width / 2 - tip.offsetWidth / 2;
  const above = box.top - tip.offsetHeight - 10;
  const widest = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(left, widest))}px`;
  tip.style.top = `${above > 8 ? above : box.bottom + 10}px`;
}

function hide() {
  here?.classList.remove("here");
  here = null;
  tip.hidden = true;
}

for (const plot of document.querySelectorAll("svg.plot")) {
  const marks = [...plot.querySelectorAll(".mark")];
  const near = (event) => {
    let best = null;
    let least = 40; // pixels: a mark that is farther away is not meant
    for (const mark of marks) {
      const box = mark.getBoundingClientRect();
      const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
      const distance = Math.hypot(x - event.clientX, y - event.clientY);
      if (distance < least) [best, least] = [mark, distance];
    }
    if (best) show(best);
    else hide();
  };
  for (const kind of ["pointermove", "pointerdown"]) plot.addEventListener(kind, near);
  for (const kind of ["pointerleave", "blur"]) plot.addEventListener(kind, hide);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step || !marks.length) return;
    event.preventDefault();
    const at = marks.indexOf(here);
    const next = at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length;
    show(marks[next]);
  });
}
addEventListener("scroll", place, { passive: true });

// Tables as CSV, from what they show.
const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
for (const button of document.querySelectorAll("button.csv")) {
  button.addEventListener("click", () => {
    const table = button.parentElement.querySelector("table");
    const rows = [...table.rows].map((row) => [...row.cells].map((one) => cell(one.textContent)).join(","));
    const link = document.createElement("a");
    link.href = `data:text/csv;charset=utf-8,${encodeURIComponent(`${rows.join("\n")}\n`)}`;
    link.download = `${table.caption.textContent.replace(/[^\w@.-]+/g, "-").toLowerCase()}.csv`;
    link.click();
  });
}
