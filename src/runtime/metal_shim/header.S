// The bytes of metal_stdlib, see compile.cpp. The folder of that file is among those that are searched.
#if defined(__APPLE__)
#define SYMBOL(name) _##name
  .section __TEXT,__const
#else
#define SYMBOL(name) name
  .section .rodata
#endif
  .globl SYMBOL(smelt_metal_stdlib)
  .globl SYMBOL(smelt_metal_stdlib_end)
SYMBOL(smelt_metal_stdlib):
  .incbin "metal_stdlib"
SYMBOL(smelt_metal_stdlib_end):
  .byte 0
#if defined(__ELF__)
  .section .note.GNU-stack,"",%progbits
#endif
