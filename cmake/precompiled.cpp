// The precompiled headers need a target that has a source: see compile.cmake.
