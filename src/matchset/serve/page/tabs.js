/** Tabs: which column does a narrow screen show? */

import { byId, make } from "./dom.js";

const NARROW = matchMedia("(max-width: 760px)");

/** Whether there is room for only one column. */
export function isNarrow() {
  return NARROW.matches;
}

/** Call `choose(name)` for the chosen tab, and `redraw()` when the width changes. */
export function watchTabs(choose, redraw) {
  NARROW.addEventListener("change", redraw);
  const tabs = byId("tabs");
  tabs.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab.dataset.name);
  });
  tabs.addEventListener("keydown", (event) => {
    const all = [...tabs.children];
    const at = all.indexOf(document.activeElement);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    const next = all[(steps[event.key] + all.length) % all.length];
    next.focus();
    choose(next.dataset.name);
  });
}

/** Draw a tab for each column and show the chosen one; all columns and no tabs if they fit. */
export function drawTabs(matchers, chosen) {
  const tabs = byId("tabs");
  const isUsed = isNarrow() && matchers.length > 1;
  const current = matchers.find(({ name }) => name === chosen) ?? matchers[0];
  tabs.hidden = !isUsed;
  if (isUsed) tabs.setAttribute("role", "tablist");
  else tabs.removeAttribute("role");
  const held = document.activeElement?.id;
  tabs.replaceChildren(...(isUsed ? matchers.map((each) => drawTab(each, each === current)) : []));
  if (tabs.querySelector(`#${CSS.escape(held || "none")}`)) byId(held).focus();
  for (const { name } of matchers) {
    const column = byId(`column-${name}`);
    column.hidden = isUsed && name !== current.name;
    if (isUsed) column.setAttribute("role", "tabpanel");
    else column.removeAttribute("role");
    column.setAttribute("aria-labelledby", isUsed ? `tab-${name}` : `head-${name}`);
  }
}

function drawTab({ name, label }, isChosen) {
  const properties = {
    type: "button",
    role: "tab",
    id: `tab-${name}`,
    tabIndex: isChosen ? 0 : -1,
    "aria-selected": String(isChosen),
    "aria-controls": `column-${name}`,
    data: { name },
  };
  return make("button", properties, label);
}
