// The bytes of the web page, see page.h. The folder of these files is among those that are searched.
#if defined(__APPLE__)
#define SYMBOL(name) _##name
  .section __TEXT,__const
#else
#define SYMBOL(name) name
  .section .rodata
#endif
.macro file begin, end, path
  .globl \begin
  .globl \end
\begin:
  .incbin "\path"
\end:
  .byte 0
.endm
  file SYMBOL(smelt_page_html), SYMBOL(smelt_page_html_end), index.html
  file SYMBOL(smelt_page_style), SYMBOL(smelt_page_style_end), style.css
  file SYMBOL(smelt_page_app), SYMBOL(smelt_page_app_end), app.js
  file SYMBOL(smelt_page_markdown), SYMBOL(smelt_page_markdown_end), markdown.js
  file SYMBOL(smelt_page_branches), SYMBOL(smelt_page_branches_end), branches.js
  file SYMBOL(smelt_page_highlight), SYMBOL(smelt_page_highlight_end), highlight.js
  file SYMBOL(smelt_page_maths), SYMBOL(smelt_page_maths_end), maths.js
  file SYMBOL(smelt_page_live), SYMBOL(smelt_page_live_end), live.js
  file SYMBOL(smelt_page_store), SYMBOL(smelt_page_store_end), store.js
#if defined(__ELF__)
  .section .note.GNU-stack,"",%progbits
#endif
