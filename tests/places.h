#pragma once

// Where this build has what tests use. The paths are compiled into places.cpp alone: all other
// sources are the same in every clone, so that a compiler cache knows them.
namespace tapegrad::places {

extern const char* const kSources;  // the root of the project
extern const char* const kPrograms;
extern const char* const kMpirun;         // empty if there is none
extern const char* const kOldOpenblas;    // the library that old_openblas.cpp makes
extern const char* const kPublicHeaders;  // a file: a line for each

}  // namespace tapegrad::places
