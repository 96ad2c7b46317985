// The bytes of the embedded model, see embedded.h. CMake defines EMBEDDED_MODEL_PATH.
#if defined(__APPLE__)
#define SYMBOL(name) _##name
  .section __TEXT,__const
#else
#define SYMBOL(name) name
  .section .rodata
#endif
  .globl SYMBOL(smelt_embedded_model_begin)
  .globl SYMBOL(smelt_embedded_model_end)
  .balign 64
SYMBOL(smelt_embedded_model_begin):
  .incbin EMBEDDED_MODEL_PATH
SYMBOL(smelt_embedded_model_end):
  .byte 0
#if defined(__ELF__)
  .section .note.GNU-stack,"",%progbits
#endif
