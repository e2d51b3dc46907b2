// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/file_reader.h"
#include "base/text.h"
#include "base/unique_handle.h"
#include "runtime/data/image_source.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kImageMagic = 0x803;                  // unsigned bytes, 3 dimensions
constexpr std::uint32_t kLabelMagic = 0x801;                  // unsigned bytes, 1 dimension
constexpr std::int64_t kLargestFile = std::int64_t{1} << 40;  // bytes; larger sizes are garbage
constexpr const char* kFashionMnist = "fashion-mnist";
constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";
constexpr int kFashionMnistClasses = 10;

struct GzTraits {
  using Handle = gzFile;
  static Handle empty() { return nullptr; }
  static void close(Handle file) noexcept { gzclose_r(file); }  // read only: nothing to lose
};

// A plain or gzipped file, read front to back.
class IdxFile {
 public:
  explicit IdxFile(const fs::path& path) : path_(path) {
    check_regular_file(path);
    file_ = UniqueHandle<GzTraits>(gzopen(path.c_str(), "rb"));
    if (!file_) {
      const std::string why = std::strerror(errno);
      throw UserError(path.string(),
                      "cannot be opened (" + why + "). Check the path and its permissions.");
    }
    gzbuffer(file_.get(), 1 << 17);
  }

  void check_magic(std::uint32_t wanted, const char* kind) {
    const std::uint32_t magic = read_size("magic number");
    if (magic != wanted) {
      fail(format("starts with 0x%08x (an IDX file of %s starts with 0x%08x). Give the %s file.",
                  magic, kind, wanted, kind));
    }
  }

  std::uint32_t read_size(const char* what) {
    std::array<std::uint8_t, 4> bytes{};
    if (read_some(bytes) != bytes.size()) fail(std::string("ends inside its ") + what + cut_short);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void check_size(std::int64_t value, const char* what, std::int64_t limit) {
    if (value <= 0 || value > limit) {
      fail(format("%s = %lld (must be in 1..%lld). The file is damaged: fetch it again.", what,
                  static_cast<long long>(value), static_cast<long long>(limit)));
    }
  }

  // Grows piece by piece, so that a wrong size in a short file is found before memory is filled.
  std::vector<std::uint8_t> read_bytes(std::int64_t count, const char* what) {
    constexpr std::int64_t kFirstPiece = 1 << 16;
    std::vector<std::uint8_t> bytes;
    while (static_cast<std::int64_t>(bytes.size()) < count) {
      const auto start = static_cast<std::int64_t>(bytes.size());
      const std::int64_t piece = std::min(std::max(kFirstPiece, start), count - start);
      bytes.resize(static_cast<std::size_t>(start + piece));
      const auto got = static_cast<std::int64_t>(
          read_some(std::span(bytes).subspan(static_cast<std::size_t>(start))));
      if (got != piece) {
        fail(format("holds %lld bytes of %s (its header declares %lld)%s",
                    static_cast<long long>(start + got), what, static_cast<long long>(count),
                    cut_short));
      }
    }
    return bytes;
  }

  void check_end(const char* what) {
    std::array<std::uint8_t, 1> byte{};
    if (read_some(byte) != 0) {
      fail(std::string("continues after the last of the ") + what +
           " that its header declares (size and content disagree). Fetch the file again.");
    }
  }

 private:
  static constexpr const char* cut_short = ": it is cut short. Fetch the file again.";

  [[noreturn]] void fail(std::string text) const { throw UserError(path_.string(), text); }

  // Fewer bytes than asked for: the file ended, a gzip stream possibly in its middle.
  std::size_t read_some(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size()) {
      const auto ask = static_cast<unsigned>(std::min<std::size_t>(out.size() - done, 1 << 30));
      const int got = gzread(file_.get(), out.data() + done, ask);
      if (got < 0) fail_read();
      if (got == 0) {
        // The end of the file inside a gzip stream's last bytes is no error to gzread.
        int code = Z_OK;
        gzerror(file_.get(), &code);
        if (code != Z_OK) fail_read();
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  [[noreturn]] void fail_read() const {
    int code = Z_OK;
    std::string text = gzerror(file_.get(), &code);
    const std::string place = path_.string() + ": ";  // which zlib says as well
    if (text.starts_with(place)) text.erase(0, place.size());
    if (code == Z_ERRNO) throw SystemError("reading " + path_.string() + " failed: " + text);
    if (code == Z_BUF_ERROR) fail(std::string("its gzip stream ends early") + cut_short);
    fail("is not a valid gzip file (" + text + "). Fetch it again.");
  }

  fs::path path_;
  UniqueHandle<GzTraits> file_;
};

struct SplitFiles {
  fs::path images;
  fs::path labels;
};

// The plain or the gzipped file of that name.
fs::path find_file(const fs::path& folder, const std::string& name, Problems& problems) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = folder / (name + ending);
    if (fs::is_directory(path)) {
      problems.add(path.string(), "is a folder (a file is needed). Put the file there.");
      return {};
    }
    if (fs::exists(path)) return path;
  }
  problems.add(folder.string(), "holds neither " + name + " nor " + name +
                                    ".gz (a folder of IDX files is needed). Put the file there, "
                                    "or give another folder.");
  return {};
}

SplitFiles find_files(const fs::path& folder, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  Problems problems;
  SplitFiles files{find_file(folder, prefix + "-images-idx3-ubyte", problems),
                   find_file(folder, prefix + "-labels-idx1-ubyte", problems)};
  problems.throw_if_any();
  return files;
}

fs::path folder_of(const std::string& spec) {
  const bool known = spec == kFashionMnist;
  const fs::path folder = known ? fs::path(kFashionMnistFolder) : fs::path(spec);
  if (fs::is_directory(folder)) return folder;
  if (known) {
    throw UserError(folder.string(),
                    "does not exist (data set 'fashion-mnist' is stored there). Install Debian's "
                    "package dataset-fashion-mnist, or give a folder of IDX files.");
  }
  throw UserError(spec, fs::exists(folder)
                            ? "is not a data set (a folder of IDX files, an HDF5 file ending in "
                              ".h5 or .hdf5, or 'fashion-mnist' is needed). Give one of these."
                            : "does not exist. Give a folder of IDX files, an HDF5 file ending in "
                              ".h5 or .hdf5, or 'fashion-mnist'.");
}

int classes_of(const std::string& spec, const fs::path& folder) {
  if (spec == kFashionMnist) return kFashionMnistClasses;
  Problems problems;
  const fs::path train = find_file(folder, "train-labels-idx1-ubyte", problems);
  problems.throw_if_any();
  const std::vector<std::int32_t> labels = read_idx_labels(train);
  return 1 + *std::max_element(labels.begin(), labels.end());
}

void check_labels(const SplitFiles& files, const std::vector<std::int32_t>& labels,
                  std::int64_t images, int classes) {
  Problems problems;
  if (static_cast<std::int64_t>(labels.size()) != images) {
    problems.add(files.labels.string(),
                 format("holds %zu labels, and %s holds %lld images (each image needs one label). "
                        "Give files that belong together.",
                        labels.size(), files.images.c_str(), static_cast<long long>(images)));
  }
  const auto wrong =
      std::find_if(labels.begin(), labels.end(), [&](int label) { return label >= classes; });
  if (wrong != labels.end()) {
    problems.add(files.labels.string(),
                 format("label %lld is %d (the data set has %d classes, numbered from 0). Give "
                        "files that belong together.",
                        static_cast<long long>(wrong - labels.begin()), *wrong, classes));
  }
  problems.throw_if_any();
}

// The images of a plain file, behind its header.
class IdxStore final : public SampleStore {
 public:
  // `count` images of so many bytes. UserError where the file has another size.
  IdxStore(const fs::path& path, std::int64_t count, std::int64_t bytes)
      : file_(path), bytes_(bytes) {
    const std::int64_t declared = kHeader + count * bytes;
    if (file_.size() == declared) return;
    throw UserError(path.string(),
                    format("has %lld bytes (its header declares %lld). Fetch the file again.",
                           static_cast<long long>(file_.size()), static_cast<long long>(declared)));
  }
  SampleType type() const override { return SampleType::pixels; }
  void read(SampleKey key, std::byte* out) const override {
    file_.read(kHeader + key.index * bytes_, {out, static_cast<std::size_t>(bytes_)});
  }

 private:
  static constexpr std::int64_t kHeader = 16;  // bytes
  FileReader file_;
  std::int64_t bytes_;  // of an image
};

}  // namespace

IdxImages read_idx_images(const fs::path& path, std::int64_t at_most) {
  IdxFile file(path);
  file.check_magic(kImageMagic, "images");
  IdxImages images;
  images.size = file.read_size("number of images");
  const std::int64_t height = file.read_size("height");
  const std::int64_t width = file.read_size("width");
  constexpr std::int64_t kLargestSide = 1 << 16;
  file.check_size(height, "height", kLargestSide);
  file.check_size(width, "width", kLargestSide);
  file.check_size(images.size, "number of images", kLargestFile / (height * width));
  images.height = static_cast<int>(height);
  images.width = static_cast<int>(width);
  const bool all = at_most == kAllImages || at_most >= images.size;
  images.pixels = file.read_bytes((all ? images.size : at_most) * height * width, "images");
  if (all) file.check_end("images");
  return images;
}

std::vector<std::int32_t> read_idx_labels(const fs::path& path) {
  IdxFile file(path);
  file.check_magic(kLabelMagic, "labels");
  const std::int64_t size = file.read_size("number of labels");
  file.check_size(size, "number of labels", kLargestFile);
  const std::vector<std::uint8_t> bytes = file.read_bytes(size, "labels");
  file.check_end("labels");
  return {bytes.begin(), bytes.end()};
}

Dataset load_dataset(const std::string& spec, Split split, Parts parts) {
  const fs::path folder = folder_of(spec);
  const SplitFiles files = find_files(folder, split);
  std::vector<std::int32_t> labels = read_idx_labels(files.labels);
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(files.images, error));
  // What is compressed can be read front to back alone.
  const bool stays = files.images.extension() != ".gz" && bytes > kMostBytesInMemory;
  IdxImages images = read_idx_images(
      files.images, wants_images(parts) && !stays ? kAllImages : kFingerprintImages);

  Dataset dataset;
  dataset.name = spec;
  dataset.height = images.height;
  dataset.width = images.width;
  dataset.channels = 1;
  dataset.classes = classes_of(spec, folder);
  dataset.size = images.size;
  check_labels(files, labels, images.size, dataset.classes);
  const std::int64_t first = std::min(images.size, kFingerprintImages) * dataset.sample_values();
  dataset.fingerprint = dataset_fingerprint(
      dataset, labels,
      std::as_bytes(std::span(images.pixels).first(static_cast<std::size_t>(first))));
  if (wants_images(parts) && stays) {
    dataset.store = std::make_shared<IdxStore>(files.images, dataset.size, dataset.sample_values());
  } else if (wants_images(parts)) {
    dataset.pixels = std::move(images.pixels);
  }
  if (wants_labels(parts)) dataset.labels = std::move(labels);
  return dataset;
}

}  // namespace hetpipe
