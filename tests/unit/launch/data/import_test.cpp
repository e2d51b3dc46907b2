// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "launch/command/subcommand.h"
#include "runtime/store/hdf5_dataset.h"
#include "tests/main/patience.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/scratch_folder.h"

// hetpipe data import, from files to what hetpipe train would load.
namespace hetpipe {
namespace import_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DataImport : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out, err;
  };
  Outcome run(std::vector<std::string> options) {
    std::vector<std::string> words{"hetpipe", "data", "import", "--output", output().string()};
    words.insert(words.end(), options.begin(), options.end());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.code = run_hetpipe(words);
    outcome.out = ::testing::internal::GetCapturedStdout();
    outcome.err = ::testing::internal::GetCapturedStderr();
    return outcome;
  }
  Outcome run_folder(std::vector<std::string> options = {}) {
    options.insert(options.end(), {"--from", "folder", "--input", (folder_ / "in").string()});
    return run(options);
  }
  // Exit code 2, the text, and nothing written.
  void expect_refused(const Outcome& outcome, const std::string& text) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_THAT(outcome.out, IsEmpty());
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_EQ(entry.path().filename(), "in");
    }
  }
  void add(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / ("in/" + name)).parent_path());
    write_plain(folder_ / ("in/" + name), bytes);
  }
  void add_animals() {
    add("train/cat/1.png", png_of(flat_image(4, 6, {10, 20, 30})));
    add("train/cat/2.jpg", jpeg_of(flat_image(4, 6, {100})));
    add("train/dog/1.png", png_of(made_image(4, 6, 3)));
    add("test/dog/1.png", png_of(made_image(4, 6, 3, 5)));
  }
  fs::path output() { return folder_ / "out.h5"; }
  Dataset load(Split split) { return load_hdf5_dataset(output().string(), split, Parts::both); }

  ScratchFolder folder_;
};

TEST_F(DataImport, FolderToDataset) {
  add_animals();
  add("train/dog/notes.txt", "a good dog");
  const Outcome outcome = run_folder();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("3 train and 1 test images of 4 x 6 x 3, 2 classes"),
                                 HasSubstr("ignored: 1 files"), HasSubstr("notes.txt")));
  const Dataset train = load(Split::train);
  EXPECT_THAT(train.labels, ElementsAre(0, 0, 1));
  EXPECT_EQ(train.pixels[0], 10);
  EXPECT_EQ(train.pixels[2], 30);
  EXPECT_NEAR(train.pixels[72], 100, 1);  // grey, repeated
  EXPECT_NEAR(train.pixels[74], 100, 1);
  const Image dog = made_image(4, 6, 3);
  EXPECT_TRUE(std::equal(dog.pixels.begin(), dog.pixels.end(), train.pixels.begin() + 144));
  EXPECT_THAT(load(Split::test).labels, ElementsAre(1));
}

TEST_F(DataImport, SizeFitAndChannels) {
  add("a/1.png", png_of(flat_image(40, 80, {255, 0, 0})));
  add("b/1.png", png_of(flat_image(3, 3, {0, 0, 255})));
  EXPECT_EQ(run_folder({"--size", "8,8", "--fit", "crop", "--channels", "1"}).code, 0);
  const Dataset train = load(Split::train);
  EXPECT_EQ(train.height, 8);
  EXPECT_EQ(train.width, 8);
  EXPECT_EQ(train.channels, 1);
  EXPECT_EQ(train.pixels[0], 76);
  EXPECT_EQ(train.pixels[64], 29);
}

TEST_F(DataImport, ATestShareIsTakenFromEveryClass) {
  for (int i = 0; i < 10; ++i) {
    const std::uint8_t shade = static_cast<std::uint8_t>(20 * i);
    add("cat/" + std::to_string(i) + ".png", png_of(flat_image(2, 2, {shade})));
    add("dog/" + std::to_string(i) + ".png", png_of(flat_image(2, 2, {shade})));
  }
  const Outcome outcome = run_folder({"--test-share", "0.2", "--channels", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("16 train and 4 test images of 2 x 2 x 1, 2 classes"));
  const Dataset train = load(Split::train), test = load(Split::test);
  EXPECT_THAT(test.labels, ElementsAre(0, 0, 1, 1));
  std::vector<int> shades;  // of cats, in both splits
  for (std::size_t i = 0; i < 8; ++i) shades.push_back(train.pixels[4 * i]);
  for (std::size_t i = 0; i < 2; ++i) shades.push_back(test.pixels[4 * i]);
  std::sort(shades.begin(), shades.end());
  EXPECT_THAT(shades, ElementsAre(0, 20, 40, 60, 80, 100, 120, 140, 160, 180));
}

TEST_F(DataImport, ATestShareOfWhatHasATestSplitIsRefused) {
  add_animals();
  expect_refused(run_folder({"--test-share", "0.2"}), "--test-share: is for data without a test");
}

TEST_F(DataImport, SameInputSameBytes) {
  add_animals();
  ASSERT_EQ(run_folder().code, 0);
  const std::string bytes = read_file(output());
  const Outcome again = run_folder();
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("already exists"));
  ASSERT_EQ(run_folder({"--force"}).code, 0);
  EXPECT_EQ(read_file(output()), bytes);
}

TEST_F(DataImport, Cifar) {
  std::string records;
  for (const char label : {4, 7}) records += label + std::string(3072, static_cast<char>(label));
  for (const char* file : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    add(file, records);
  }
  const Outcome outcome = run({"--from", "cifar-10", "--input", (folder_ / "in").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("10 train and 2 test images of 32 x 32 x 3, 10 classes"));
  const Dataset train = load(Split::train);
  EXPECT_EQ(train.size, 10);
  EXPECT_EQ(train.labels[1], 7);
  EXPECT_EQ(train.pixels[3072], 7);
}

TEST_F(DataImport, DamagedImagesAreAllNamedAndNothingIsLeft) {
  add_animals();
  add("train/cat/0.png", "");
  add("train/dog/2.jpg", jpeg_of(made_image(4, 6, 3)).substr(0, 300));
  add("test/dog/2.png", png_of(made_image(4, 6, 3)).substr(0, 50));
  const Outcome outcome = run_folder();
  expect_refused(outcome, "train/cat/0.png: is empty");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("train/dog/2.jpg: cannot be read as a JPEG image"),
                                 HasSubstr("test/dog/2.png: cannot be read as a PNG image")));
}

TEST_F(DataImport, ManyProblemsAreCutOff) {
  add("b/1.png", png_of(made_image(2, 2, 3)));
  for (int i = 10; i < 60; ++i) add("a/" + std::to_string(i) + ".png", "no image");
  const Outcome outcome = run_folder();
  expect_refused(outcome, "a/29.png: is the last one listed");
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("a/30.png")));
}

TEST_F(DataImport, ImagesOfTwoSizesNeedASize) {
  add("a/1.png", png_of(made_image(4, 6, 3)));
  add("b/1.png", png_of(made_image(6, 4, 3)));
  expect_refused(run_folder(), "b/1.png: is 6 x 4, and ");
  EXPECT_EQ(run_folder({"--size", "4,4"}).code, 0);
}

TEST_F(DataImport, OptionsThatDoNotFit) {
  add_animals();
  expect_refused(run_folder({"--size", "4"}),
                 "--size: 1 numbers (there must be two: rows and columns)");
  expect_refused(run_folder({"--size", "4,0"}), "--size");
  expect_refused(run_folder({"--fit", "crop"}), "--fit: crop (has no effect without --size)");
  expect_refused(run_folder({"--coarse"}), "--coarse: applies to --from cifar-100 only");
  expect_refused(run_folder({"--channels", "4"}), "--channels");
  expect_refused(run({"--from", "folder"}), "--input: is missing");
  expect_refused(run({"--from", "imagenet", "--input", "x"}), "imagenet");
  expect_refused(run_folder({"--output", (folder_ / "out.png").string()}), "ends in .h5");
  expect_refused(run_folder({"--output", (folder_ / "nowhere/out.h5").string()}),
                 "there is no folder");
  expect_refused(run({"--from", "folder", "--input", (folder_ / "no").string()}),
                 "no: is not a folder");
}

// As by `timeout`. Enough images that it is in the middle of them for seconds.
TEST_F(DataImport, InterruptedItLeavesNothing) {
  add("train/cat/1.png", png_of(made_image(200, 200, 3)));
  add("train/dog/1.png", png_of(made_image(200, 200, 3)));
  for (int i = 2; i < 1000; ++i) {
    fs::create_hard_link(folder_ / "in/train/cat/1.png",
                         folder_ / ("in/train/cat/" + std::to_string(i) + ".png"));
  }
  const auto entries = [&] { return std::distance(fs::directory_iterator(folder_.path()), {}); };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_folder({"--size", "400,400"}).code);
  int status = 0;
  const auto ended = [&] { return ::waitpid(child, &status, WNOHANG) == child; };
  // The folder, and a new file.
  ASSERT_TRUE(test::comes_true([&] { return entries() == 2 || ended(); }));
  ::kill(child, SIGTERM);
  ASSERT_TRUE(test::comes_true(ended));
  EXPECT_TRUE(WIFSIGNALED(status)) << "it had ended before";
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_EQ(entries(), 1);
}

}  // namespace import_test
}  // namespace hetpipe
