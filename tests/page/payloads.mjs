// Texts that would run as scripts, load something or leave the page if any part of it took them for markup.

const elements = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg onload=alert(1)>",
  "<svg><script>alert(1)</script></svg>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<iframe src=javascript:alert(1)></iframe>",
  "<object data=//evil.example/x></object>",
  "<embed src=//evil.example/x>",
  "<link rel=stylesheet href=//evil.example/x.css>",
  "<base href=//evil.example/>",
  "<meta http-equiv=refresh content='0;url=//evil.example'>",
  "<form action=//evil.example><button autofocus>x</button></form>",
  "<input autofocus onfocus=alert(1)>",
  "<details open ontoggle=alert(1)>x</details>",
  "<video autoplay src=//evil.example/x onerror=alert(1)></video>",
  "<style>@import '//evil.example/x.css';</style>",
  "<template><img src=x onerror=alert(1)></template>",
  "<math><mi xlink:href=javascript:alert(1)>x</mi></math>",
  "</textarea></title></div><script>alert(1)</script>",
  "&lt;img src=x onerror=alert(1)&gt;",
  "<a href=javascript:alert(1)>x</a>",
];

// Where Markdown, formulas and code would put them.
const places = [
  (text) => text,
  (text) => `# ${text}`,
  (text) => `- **${text}**`,
  (text) => `| ${text} | b |\n|---|---|\n| ${text} | 2 |`,
  (text) => `\`\`\`${text}\n${text}\n\`\`\``,
  (text) => `$\\frac{${text}}{\\text{${text}}}$ and \`${text}\``,
];

const addresses = [
  "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "&#106;avascript:alert(1)", "\u0001javascript:alert(1)",
  "data:text/html,<script>alert(1)</script>", "vbscript:msgbox(1)", "blob:x", "file:///etc/passwd", "//evil.example/x",
  "https://evil.example/\"onmouseover=\"alert(1)",
];

export const payloads = [
  ...elements.flatMap((element) => places.map((place) => place(element))),
  ...addresses.flatMap((address) => [`[x](${address})`, `![x](${address})`, `[x]: ${address}\n\n[x]`]),
];

// What the payloads left in a document: what it should not have, as text; empty where they stayed text.
export function tracesOf(page) {
  return page.evaluate(() => {
    const foreign = "iframe, object, embed, base, form[action], img, video, svg script, meta[http-equiv=refresh], #messages script, #messages style, #messages link";
    const found = [...document.querySelectorAll(foreign)].map((node) => node.outerHTML);
    for (const node of document.querySelectorAll("*")) {
      for (const { name } of node.attributes) if (/^on/i.test(name)) found.push(`${node.tagName} has ${name}`);
      if (node.href && node.tagName === "A" && !/^(https?|mailto|blob):/.test(node.href)) found.push(node.href);
    }
    return found;
  });
}
