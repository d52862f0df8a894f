"""The library for Conan 2: `conan create . --build=missing`."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.system.package_manager import Apt


class TapegradConan(ConanFile):
    name = "tapegrad"
    description = "Autograd framework that trains GPTs on CPUs"
    license = "MIT"
    topics = ("autograd", "deep-learning", "gpt")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]
    exports = "base/version.h"
    exports_sources = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "tapegrad.h", "cmake/*", "include/*",
                       "scripts/*", "base/*", "comm/*", "autograd/*", "nn/*", "optim/*", "data/*", "arrays/*", "run/*",
                       "docs/*")
    # Each needs those behind it.
    layers = ("run", "arrays", "data", "optim", "nn", "autograd", "comm", "base")

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "base", "version.h"))
        self.version = re.search(r'TAPEGRAD_VERSION "([0-9.]+)"', header).group(1)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("fmt/[>=9 <13]", transitive_headers=True)
        self.requires("nlohmann_json/[>=3.11 <4]")
        self.requires("pcre2/[>=10.42 <11]")
        self.requires("utf8proc/[>=2.8 <3]")
        self.requires("zlib/[>=1.2.13 <2]")
        self.requires("zstd/[>=1.5 <2]")

    def system_requirements(self):
        # OpenBLAS is loaded at run time, with the kernels that suit the processor: the system's.
        Apt(self).install(["libopenblas-openmp-dev"])

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for option in ("NATIVE", "ONEDNN", "MPI", "BUILD_APPS", "BUILD_TESTS"):
            toolchain.cache_variables[f"TAPEGRAD_{option}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in ("cmake", "pkgconfig"):  # Conan makes its own
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        for i, layer in enumerate(self.layers):
            part = self.cpp_info.components[layer]
            part.libs = [f"tapegrad_{layer}"]
            part.set_property("cmake_target_name", f"tapegrad::{layer}")
            part.requires = list(self.layers[i + 1:]) + ["fmt::fmt"]
            part.system_libs = ["dl", "m", "pthread"]
        for layer, needed in (("base", ["nlohmann_json::nlohmann_json", "utf8proc::utf8proc"]),
                              ("nn", ["zlib::zlib"]),
                              ("data", ["nlohmann_json::nlohmann_json", "pcre2::pcre2", "zlib::zlib", "zstd::zstd"]),
                              ("arrays", ["zlib::zlib"]), ("run", ["nlohmann_json::nlohmann_json", "zlib::zlib"])):
            self.cpp_info.components[layer].requires += needed
        self.cpp_info.components["tapegrad"].requires = ["run", "arrays"]
