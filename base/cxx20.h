#pragma once

// The first header of each build against tapegrad: everything else needs C++20.
#if __cplusplus < 202002L
#error "tapegrad needs C++20: compile with -std=c++20 or newer"
#endif
