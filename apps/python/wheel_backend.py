"""Builds the wheel: CMake's target tapegrad_python, and the files of the package, in a zip archive as PEP 427 has it.

The folder of the build is TAPEGRAD_PYTHON_BUILD [build-python at the root of the sources]. As a program, it builds and makes no
wheel: pip shows nothing of a build that takes minutes."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]


def version():
    return re.search(r'TAPEGRAD_VERSION "(.*)"', (SOURCES / "base" / "version.h").read_text())[1]


def tag():
    """An extension is for one version of CPython on one platform."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def build():
    """The folder of the package."""
    folder = Path(os.environ.get("TAPEGRAD_PYTHON_BUILD", SOURCES / "build-python"))
    options = ["-DTAPEGRAD_PYTHON=ON", "-DTAPEGRAD_BUILD_TESTS=OFF"]
    subprocess.run(["cmake", "-S", SOURCES, "-B", folder, *options, f"-DPython_EXECUTABLE={sys.executable}"], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", str(os.cpu_count()), "--target", "tapegrad_python"], check=True)
    return folder / "python" / "tapegrad"


def metadata():
    return f"Metadata-Version: 2.1\nName: tapegrad\nVersion: {version()}\nRequires-Python: >=3.10\nRequires-Dist: numpy\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package, info, record = build(), f"tapegrad-{version()}.dist-info", []
    name = f"tapegrad-{version()}-{tag()}.whl"
    module = "_core" + sysconfig.get_config_var("EXT_SUFFIX")
    files = {f"tapegrad/{path.name}": path.read_bytes() for path in (*sorted(package.glob("*.py")), package / module)}
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tapegrad\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode()
    with zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")
            wheel.writestr(path, data)
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return name


if __name__ == "__main__":
    build()
