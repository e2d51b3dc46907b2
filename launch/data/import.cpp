// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/subcommand.h"
#include "launch/data/actions.h"
#include "runtime/data/image_source.h"
#include "runtime/data/test_share.h"
#include "runtime/store/dataset_writer.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostProblems = 20;  // of images; more are likely to say the same

struct ImportOptions {
  std::optional<std::string> from;
  std::optional<std::string> input;
  std::optional<std::string> output;
  std::optional<std::vector<int>> size;  // rows, columns
  std::string fit = "stretch";
  std::string channels = "3";
  std::optional<double> test_share;
  bool coarse = false;
  bool force = false;
};

OptionTable table_of(ImportOptions& options) {
  return {
      "data import",
      "Writes a labelled set of images to one HDF5 file, which hetpipe train reads with --data "
      "FILE.h5: bytes of one shape, in the order of the source. The same input gives the same "
      "bytes.",
      {{"What to read",
        {
            required(choice_option("from", options.from, {"cifar-10", "cifar-100", "folder"},
                                   "Format of the input: the binary version of CIFAR, or a folder "
                                   "with one folder of JPEG or PNG files per class, optionally "
                                   "below train/ and test/.")),
            required(text_option("input", "PATH", options.input,
                                 "Folder with CIFAR's files, or with the folders of the classes.")),
            flag_option("coarse", options.coarse,
                        "For CIFAR-100: uses the 20 coarse labels instead of the 100 fine ones."),
            unset_means("none, where the input has no test/",
                        real_option("test-share", "F", options.test_share, {0, 1, true},
                                    "Of an input without a test split: the share of each class's "
                                    "images that become one, the same ones every time.")),
        }},
       {"What to write",
        {
            required(text_option("output", "FILE", options.output,
                                 "Output file; its name ends in .h5 or .hdf5.")),
            unset_means(
                "that of the images, which must then all have the same size",
                integers_option("size", "H,W", options.size, {1, double{kLargestImageSide}},
                                "Rows and columns of every image: larger ones are averaged over "
                                "areas, smaller ones are interpolated linearly.")),
            choice_option(
                "fit", options.fit, {"stretch", "crop"},
                "How --size treats an image of another aspect ratio: stretches it, or crops "
                "it to the largest part around its centre that has the ratio."),
            choice_option("channels", options.channels, {"1", "3"},
                          "Channels of every image: 3 repeats grey, 1 converts colours to grey."),
            flag_option("force", options.force, "Overwrites the output file if it exists."),
        }}}};
}

void check(const ImportOptions& options, Problems& problems) {
  if (options.size && options.size->size() != 2) {
    problems.add("--size",
                 format("%zu numbers (there must be two: rows and columns). Write --size 32,32.",
                        options.size->size()));
  }
  if (options.fit == "crop" && !options.size) {
    problems.add("--fit",
                 "crop (has no effect without --size). Give --size H,W, "
                 "or leave --fit out.");
  }
  if (options.coarse && options.from && *options.from != "cifar-100") {
    problems.add("--coarse",
                 "applies to --from cifar-100 only (others have one set of labels). "
                 "Leave it out.");
  }
  if (!options.output) return;
  const std::filesystem::path path = *options.output;
  if (path.extension() != ".h5" && path.extension() != ".hdf5") {
    problems.add("--output", path.string() +
                                 " (--data recognises HDF5 files by their extension). Give "
                                 "a name that ends in .h5 or .hdf5.");
    return;
  }
  if (path.string().find(',') != std::string::npos) {
    problems.add("--output",
                 path.string() + " (in --data a comma separates two files). Give another name.");
    return;
  }
  check_output_file("--output", path.string(), problems);
  std::error_code code;
  if (!options.force && std::filesystem::exists(path, code)) {
    problems.add(
        "--output",
        path.string() + " (already exists). Give another name, or --force to overwrite it.");
  }
}

ImageSources open_sources(const ImportOptions& options) {
  if (*options.from == "folder") return open_image_folder(*options.input);
  if (*options.from == "cifar-10") return open_cifar(*options.input, CifarLabels::ten);
  return open_cifar(*options.input, options.coarse ? CifarLabels::coarse : CifarLabels::fine);
}

// Brings images to one shape: that of --size, else that of the first image.
class Shaper {
 public:
  explicit Shaper(const ImportOptions& options)
      : options_(options), channels_(options.channels == "1" ? 1 : 3) {
    if (options.size) {
      height_ = (*options.size)[0];
      width_ = (*options.size)[1];
    }
  }

  Image shaped(Image image, const std::string& name) {
    image = with_channels(std::move(image), channels_);
    if (options_.size) {
      if (options_.fit == "crop") image = center_cropped(image, height_, width_);
      return resized(image, height_, width_);
    }
    if (first_.empty()) {
      first_ = name;
      height_ = image.height;
      width_ = image.width;
    }
    if (image.height == height_ && image.width == width_) return image;
    throw UserError(
        name, format("is %d x %d, and %s is %d x %d (all images of a data set must have the same "
                     "size). Give --size H,W.",
                     image.height, image.width, first_.c_str(), height_, width_));
  }
  std::string text() const { return format("%d x %d x %d", height_, width_, channels_); }

 private:
  const ImportOptions& options_;
  int channels_;
  int height_ = 0, width_ = 0;
  std::string first_;  // the image that decides, without --size
};

// One split. Images that cannot be taken are collected, so that one run names them; the file is not
// kept then.
void write_split(DatasetWriter& writer, Split split, ImageSource& source, Shaper& shaper,
                 Problems& problems) {
  bool begun = false;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    try {
      const Image image = shaper.shaped(source.read(i), source.name(i));
      if (!problems.empty()) continue;
      if (!begun) {
        writer.begin(split, image.height, image.width, image.channels, source.labels());
        begun = true;
      }
      writer.append(image.pixels);
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
      if (problems.list().size() < kMostProblems) continue;
      problems.add(source.name(i),
                   "is the last one listed (there may be more). Correct these, then "
                   "run again.");
      problems.throw_if_any();
    }
  }
}

}  // namespace

int data_import(const Invocation& how) {
  ImportOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& p) { check(options, p); })) return 0;
  ImageSources sources = open_sources(options);
  if (options.test_share) {
    sources = with_test_share(std::move(sources), *options.test_share, *options.input);
  }
  Shaper shaper(options);
  Problems problems;
  DatasetWriter writer(*options.output);
  write_split(writer, Split::train, *sources.train, shaper, problems);
  if (sources.test) write_split(writer, Split::test, *sources.test, shaper, problems);
  problems.throw_if_any();
  writer.commit(sources.class_names);
  std::printf("%s: %lld train and %lld test images of %s, %d classes\n", options.output->c_str(),
              static_cast<long long>(sources.train->size()),
              static_cast<long long>(sources.test ? sources.test->size() : 0),
              shaper.text().c_str(), sources.classes);
  if (!sources.ignored.empty()) {
    std::printf("ignored: %zu files that do not end in .jpg, .jpeg or .png, the first is %s\n",
                sources.ignored.size(), sources.ignored.front().c_str());
  }
  return 0;
}

}  // namespace hetpipe
