#pragma once

// Debian 12 and Ubuntu 22.04 ship Catch2 v2, later releases v3; the tests build with either.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using CatchListener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // for listeners
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
using CatchListener = Catch::TestEventListenerBase;
#endif
