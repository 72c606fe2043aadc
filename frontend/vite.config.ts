import { defineConfig } from "vite";

// The gate of the server lets anyone fetch "/" and "/static/…": the page holds no reading.
export default defineConfig({
  base: "/static/",
  esbuild: { jsx: "automatic", legalComments: "none" },
  build: {
    target: "es2022",
    outDir: "../src/andon/web/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // data: addresses are not allowed by the server's policy
    modulePreload: false, // the runs' pages are one script more, which needs nothing else
    reportCompressedSize: false,
    rollupOptions: {
      onwarn: (warning, warn) => warning.code !== "MODULE_LEVEL_DIRECTIVE" && warn(warning), // "use client"
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:26366", "/socket.io": { target: "http://127.0.0.1:26366", ws: true } } },
});
