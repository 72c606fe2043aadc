// Runs before anything is rendered, so that the page never flashes in the other theme.
try {
  const theme = localStorage.getItem("andon.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (error) {
  // Storage may be blocked; then the system's setting is used.
}
