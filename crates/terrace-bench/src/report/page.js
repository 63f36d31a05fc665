// What the page gains with a script: text beside the pointer, one row at a time, the result file as a file.
"use strict";
(() => {
  const tip = document.getElementById("tip");

  // A hit area's <title> becomes text beside the pointer; without a script the browser shows it itself.
  const told = (target) => target instanceof Element && target.closest(".hit");
  for (const hit of document.querySelectorAll(".hit")) {
    const title = hit.querySelector("title");
    hit.dataset.tip = title.textContent;
    title.remove();
  }
  const show = (event) => {
    const hit = told(event.target);
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

  // #row-3 shows that row alone; anything else shows them all. Print shows them all in any case.
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
