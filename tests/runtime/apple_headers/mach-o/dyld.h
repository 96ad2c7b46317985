// As beside it.
#pragma once

#include <mach-o/loader.h>

extern "C" const struct mach_header* _dyld_get_image_header(uint32_t number);
