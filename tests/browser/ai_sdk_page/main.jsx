// A page as a customer has it: the README's component, mounted twice as React does it in development. Tests that
// look at more than it shows make chats of their own, with `sdk`.

import { Chat as SdkChat } from "@ai-sdk/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Chat, kept, transport } from "readme/chat.jsx";

globalThis.sdk = { Chat: SdkChat, transport };
const { id, stored } = globalThis.given;
const messages = stored ? await transport.load(id) : kept(id);
createRoot(document.getElementById("chat")).render(
  <StrictMode>
    <Chat id={id} messages={messages} />
  </StrictMode>,
);
