// "- [x] done" is a ticked item.

const BOX = /^\[([ xX])\] /;

/** @param {import("markdown-it").MarkdownIt} md */
export function tasks(md) {
  md.core.ruler.after("text_join", "tasks", ({ tokens }) => {
    tokens.forEach((token, i) => {
      const [item, paragraph] = [tokens[i - 2], tokens[i - 1]];
      const first = token.children?.[0];
      if (item?.type !== "list_item_open" || paragraph?.type !== "paragraph_open" || first?.type !== "text") return;
      const box = BOX.exec(first.content);
      if (!box) return;
      item.attrSet("class", "task");
      first.content = (box[1] === " " ? "☐ " : "☑ ") + first.content.slice(box[0].length);
    });
  });
}
