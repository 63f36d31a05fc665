// Adds tooltips, the selection of one row, and the button that saves the result file.
"use strict";
(() => {
  const tip = document.getElementById("tip");

  // The <title> of a pointer region becomes a tooltip; without the script, the browser shows it.
  const hitRegion = (target) => target instanceof Element && target.closest(".hit");
  for (const hit of document.querySelectorAll(".hit")) {
    const title = hit.querySelector("title");
    hit.dataset.tip = title.textContent;
    title.remove();
  }
  const show = (event) => {
    const hit = hitRegion(event.target);
    tip.hidden = !hit;
    if (!hit) return;
    tip.textContent = hit.dataset.tip;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const { clientWidth: screen } = document.documentElement;
    const left = Math.min(event.clientX + 14, screen - width - 8);
    const above = event.clientY - height - 14;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // #row-3 shows only that row; any other hash shows all rows. Print shows none of them.
  const rows = [...document.querySelectorAll(".row")];
  const choose = () => {
    const chosen = rows.find((row) => `#${row.id}` === location.hash);
    for (const row of rows) row.classList.toggle("unchosen", Boolean(chosen) && row !== chosen);
    for (const link of document.querySelectorAll("#rows nav a")) {
      const current = chosen ? link.hash === location.hash : link.hash === "#rows";
      if (current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (chosen) document.getElementById("rows").scrollIntoView();
  };
  addEventListener("hashchange", choose);
  choose();

  const place = document.getElementById("save");
  if (place) {
    const button = document.createElement("button");
    button.textContent = "Save the result file";
    button.addEventListener("click", () => {
      const text = document.getElementById("result").textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "result.json";
      link.click();
      URL.revokeObjectURL(link.href);
    });
    place.append(" ", button);
  }
})();
