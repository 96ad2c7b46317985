// The page of `smelt viz`, see page.h. CMake defines VIZ_PAGE_PATH.
#if defined(__APPLE__)
#define SYMBOL(name) _##name
  .section __TEXT,__const
#else
#define SYMBOL(name) name
  .section .rodata
#endif
  .globl SYMBOL(smelt_viz_page_begin)
  .globl SYMBOL(smelt_viz_page_end)
SYMBOL(smelt_viz_page_begin):
  .incbin VIZ_PAGE_PATH
SYMBOL(smelt_viz_page_end):
  .byte 0
#if defined(__ELF__)
  .section .note.GNU-stack,"",%progbits
#endif
