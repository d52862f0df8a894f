#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::arrays {

struct CsvOptions {
  bool header = false;  // the first line has the columns' names
  char separator = ',';
  DType dtype = DType::f32;  // or f64, i32, u8, and i64 up to 2^53
};

struct Csv {
  Tensor values;                     // (rows, columns)
  std::vector<std::string> columns;  // of the header; empty without one
  // A column by its name, (rows); Error, naming those there are, if there is none.
  Tensor column(const std::string& name) const;
};

// A text file of numbers, as many in each line. Blanks around a number, Windows' line ends, a byte
// order mark and empty lines at the end are passed over; names may be in "…". Errors, naming path
// and line: a field that is empty or no finite number of the dtype (a sign + is none), a line with
// more or fewer fields than the first one, and a file without numbers.
Csv load_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace tapegrad::arrays
