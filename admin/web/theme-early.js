// Runs before the first paint, so that the theme does not flash; Mantine keeps the choice under the same name.

const chosen = localStorage.getItem("theme");
const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
document.documentElement.dataset.mantineColorScheme = dark ? "dark" : "light";
