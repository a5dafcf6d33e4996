// Mantine under our tokens: its variables are a static file (tokens.css), so the page's policy needs no inline styles.

import { Button, createTheme, Drawer, localStorageColorSchemeManager, Modal } from "@mantine/core";

export const theme = createTheme({
  fontFamily: "var(--font)",
  fontFamilyMonospace: "var(--mono)",
  primaryColor: "teal",
  defaultRadius: 6,
  respectReducedMotion: true,
  components: {
    Button: Button.extend({
      defaultProps: { size: "xs" },
      vars: (_, props) => ({
        root: {
          "--button-height": "30px",
          "--button-fz": "13px",
          ...(props.variant === "default" || props.variant === "subtle"
            ? {}
            : {
                "--button-bg": "var(--accent)",
                "--button-hover": "var(--accent-hover)",
                "--button-color": "var(--on-accent)",
              }),
        },
      }),
    }),
    // Their scroll lock and their moves write a style element, which the page's policy refuses.
    Modal: Modal.extend({
      defaultProps: { lockScroll: false, radius: 10, transitionProps: { duration: 0 }, closeButtonProps: { "aria-label": "Close" } },
    }),
    Drawer: Drawer.extend({
      defaultProps: { lockScroll: false, transitionProps: { duration: 0 }, closeButtonProps: { "aria-label": "Close" } },
    }),
  },
});

/** Where the choice is kept: theme-early.js reads it before the first paint. */
export const schemes = localStorageColorSchemeManager({ key: "theme" });
