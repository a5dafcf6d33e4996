// Runs before the first paint, so that a chosen theme does not flash. The rest is in theme.js.

const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
