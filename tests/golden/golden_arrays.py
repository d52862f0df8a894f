"""Arrays as numpy writes them, for tests/arrays: python3 golden_arrays.py [FOLDER]"""
import sys
import numpy as np

folder = sys.argv[1] if len(sys.argv) > 1 else "arrays"
numbers = np.array([[1, -2.5, 3e30], [0, 0.1, -7]])
for name, array in {
    "f4": numbers.astype("<f4"), "f8": numbers, "i4": np.array([1, -2, 2**31 - 1], "<i4"),
    "i8": np.array([[5], [-(2**31)]], "<i8"), "u1": np.arange(6, dtype="u1").reshape(1, 2, 3),
    "bool": np.array([True, False]), "scalar": np.array(2.5, "<f4"), "empty": np.zeros((0, 3), "<f4"),
    "wide": np.array([1, 2**31], "<i8"), "big": numbers.astype(">f4"), "fortran": np.asfortranarray(numbers),
    "fields": np.zeros(2, [("x", "<f4"), ("y", "<i4")]), "half": numbers.astype("<f2"),
}.items():
    np.save(f"{folder}/{name}.npy", array)
arrays = {"x": numbers.astype("<f4"), "labels": np.array([3, 1], "<i8"), "zeros": np.zeros((100, 100), "u1")}
np.savez(f"{folder}/stored.npz", **arrays)
np.savez_compressed(f"{folder}/deflated.npz", **arrays)
