// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <hdf5.h>
#include <zlib.h>

#include <functional>
#include <numeric>

#include "tests/fault/sound_input.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/made_tar.h"

// Data sets that are not as they should be, through hetpipe train.
namespace hetpipe::test {
namespace bad_data_test {

namespace fs = std::filesystem;

using BadData = SoundInput;

std::string gzipped(const std::string& text) {
  const fs::path place = "/tmp/fault." + std::to_string(::getpid()) + ".gz";
  gzFile file = gzopen(place.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const std::string bytes = read(place);
  fs::remove(place);
  return bytes;
}

TEST_F(BadData, IdxFiles) {
  const std::string images = "data/train-images-idx3-ubyte";
  const std::string labels = "data/train-labels-idx1-ubyte";
  const std::string test_images = "data/t10k-images-idx3-ubyte";
  const std::string test_labels = "data/t10k-labels-idx1-ubyte";
  const std::string sound = idx_images(64);
  const std::string zipped = gzipped(sound);
  const auto with = [&](std::size_t at, const std::string& bytes, std::string text) {
    return text.replace(at, bytes.size(), bytes);
  };
  struct Case {
    std::string file;
    std::string content;
    std::vector<std::string> words;
  };
  const std::vector<Case> kCases{
      {images, "", {images + ":", "ends inside its magic number", "Fetch the file again"}},
      {images, sound.substr(0, 6), {images + ":", "ends inside its number of images"}},
      {images, sound.substr(0, 13), {images + ":", "ends inside its width"}},
      {images, sound.substr(0, 16), {images + ":", "holds 0 bytes of images", "declares 4096"}},
      {images, sound.substr(0, 1000), {images + ":", "holds 984 bytes", "declares 4096"}},
      {images, sound + "x", {images + ":", "continues after the last"}},
      {images, with(2, "\x09", sound), {images + ":", "starts with 0x00000903", "0x00000803"}},
      {images, idx_labels(64), {images + ":", "starts with 0x00000801", "0x00000803"}},
      {images, with(4, std::string(4, '\0'), sound), {images + ":", "number of images = 0"}},
      {images, with(4, std::string(4, '\xff'), sound), {images + ":", "holds 4096 bytes"}},
      {images, with(8, std::string(4, '\xff'), sound), {images + ":", "height = 4294967295"}},
      {images, with(8, std::string(8, '\0'), sound), {images + ":", "height = 0"}},
      {images, std::string(5000, '\x5a'), {images + ":", "starts with 0x5a5a5a5a"}},
      {images, zipped.substr(0, 5), {images + ":"}},
      {images, zipped.substr(0, zipped.size() / 2), {images + ":", "ends early"}},
      {images, with(30, "\x5a\x5a\x5a\x5a", zipped), {images + ":", "not a valid gzip file"}},
      {images, idx_images(63), {labels + ":", "holds 64 labels", "63 images"}},
      {labels, idx_labels(65), {labels + ":", "holds 65 labels", "64 images"}},
      {labels, idx_labels(64).substr(0, 20), {labels + ":", "holds 12 bytes", "declares 64"}},
      {labels, sound, {labels + ":", "starts with 0x00000803", "0x00000801"}},
      {labels, idx_labels(64, 1), {"1 classes"}},
      {test_labels, idx_labels(16, 9), {test_labels + ":", "label 4 is 4", "4 classes"}},
      {test_labels, idx_labels(15), {test_labels + ":", "holds 15 labels", "16 images"}},
      {test_images, idx_images(16, 9), {"data: ", "another shape"}},
  };
  for (const Case& bad : kCases) {
    SCOPED_TRACE(bad.file + ", " + std::to_string(bad.content.size()) + " bytes");
    const std::string before = read(file(bad.file));
    write(file(bad.file), bad.content);
    expect_refused(kTrain, bad.words);
    write(file(bad.file), before);
  }
  for (const std::string& name : {images, labels, test_images, test_labels}) {
    SCOPED_TRACE(name);
    const std::string before = read(file(name));
    fs::remove(file(name));
    expect_refused(kTrain, {"data: holds neither " + name.substr(5) + " nor"});
    fs::create_directory(file(name));
    expect_refused(kTrain, {name});
    fs::remove(file(name));
    write(file(name), before);
  }
}

TEST_F(BadData, PlacesWhereThereIsNone) {
  write(file("notes.txt"), "hello");
  fs::create_directory(file("empty"));
  fs::create_directories(file("pictures/train/cat"));
  write(file("pictures/train/cat/1.JPG"), "an image");
  fs::create_directory(file("loose"));
  write(file("loose/1.png"), "an image");
  const std::vector<std::pair<std::string, std::vector<std::string>>> kCases{
      {"nowhere", {"nowhere: does not exist", "folder of IDX files"}},
      {"nowhere.h5", {"nowhere.h5: does not exist"}},
      {"notes.txt", {"notes.txt: is not a data set"}},
      {"empty",
       {"empty: holds neither train-images-idx3-ubyte nor",
        "empty: holds neither train-labels-idx1-ubyte nor"}},
      {"fashion-mnits", {"fashion-mnits: does not exist", "'fashion-mnist'"}},
      {"pictures", {"pictures/train: holds one class, cat (a classifier needs at least 2)"}},
      {"loose", {"loose: holds no folders (each class is a folder of images)"}},
  };
  for (const auto& [name, words] : kCases) {
    std::string arguments = kTrain;
    arguments.replace(arguments.find("--data data"), 11, "--data " + name);
    expect_refused(arguments, words);
  }
}

// --- HDF5
// ------------------------------------------------------------------------------------------

struct Group {
  std::vector<hsize_t> images{64, 8, 8, 1};
  hid_t images_type = H5T_NATIVE_UINT8;
  std::vector<hsize_t> labels{64};
  hid_t labels_type = H5T_NATIVE_INT64;
  std::int64_t first_label = 0;
};

hid_t write_dataset(hid_t group, const char* name, const std::vector<hsize_t>& shape, hid_t type,
                    const std::function<double(std::size_t)>& value) {
  const hid_t space = shape.empty()
                          ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  std::size_t count = 1;
  for (const hsize_t extent : shape) count *= extent;
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
  if (H5Tget_class(type) != H5T_STRING && count > 0) {
    H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  H5Sclose(space);
  return dataset;
}

void write_group(hid_t file, const char* name, const Group& of) {
  const hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dclose(write_dataset(group, "images", of.images, of.images_type,
                         [](std::size_t i) { return static_cast<double>(i % 200); }));
  H5Dclose(write_dataset(group, "labels", of.labels, of.labels_type, [&](std::size_t i) {
    return static_cast<double>(i == 0 ? of.first_label : static_cast<std::int64_t>(i % 4));
  }));
  H5Gclose(group);
}

void write_hdf5(const fs::path& path, const Group& train, const Group& test) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  write_group(file, "train", train);
  write_group(file, "test", test);
  H5Fclose(file);
}

TEST_F(BadData, Hdf5Files) {
  std::string train = kTrain;
  train.replace(train.find("--data data"), 11, "--data data.h5");
  write_hdf5(file("data.h5"), {}, {});
  const std::string sound = read(file("data.h5"));
  EXPECT_EQ(hetpipe(train).code, 0) << hetpipe(train).error;
  fs::remove_all(file("run"));

  const hid_t text = H5Tcopy(H5T_C_S1);
  struct Case {
    Group train;
    Group test;
    std::vector<std::string> words;
  };
  const std::vector<Case> kCases{
      {{.images = {64, 8}}, {}, {"data.h5: dataset /train/images", "(64, 8)", "is needed"}},
      {{.images = {64, 8, 8, 1, 1}}, {}, {"/train/images has shape", "(64, 8, 8, 1, 1)"}},
      {{.images = {64, 0, 8, 1}}, {}, {"/train/images has shape", "(64, 0, 8, 1)"}},
      {{.images = {63, 8, 8, 1}}, {}, {"(63, 8, 8, 1)", "/train/labels has shape (64)"}},
      {{.images_type = H5T_NATIVE_INT32}, {}, {"/train/images holds integers of 4 bytes"}},
      {{.images_type = H5T_NATIVE_DOUBLE}, {}, {"/train/images holds", "8 bytes", "float32"}},
      {{.images_type = text}, {}, {"/train/images holds strings"}},
      {{.labels = {64, 1}}, {}, {"/train/labels has shape (64, 1)", "(N) is needed"}},
      {{.labels = {}}, {}, {"/train/labels has shape"}},
      {{.labels_type = H5T_NATIVE_FLOAT}, {}, {"/train/labels holds floating-point numbers"}},
      {{.first_label = -1}, {}, {"/train/labels: label 0 is -1"}},
      {{.first_label = std::int64_t{1} << 40}, {}, {"label 0 is 1099511627776"}},
      {{.first_label = 2'000'000'000}, {}, {"label 0 is 2000000000", "0..999999"}},
      {{}, {.first_label = 4}, {"/test/labels: label 0 is 4", "0..3"}},
      {{}, {.images = {64, 9, 8, 1}}, {"data.h5: ", "another shape"}},
  };
  for (const Case& bad : kCases) {
    SCOPED_TRACE(bad.words.front());
    write_hdf5(file("data.h5"), bad.train, bad.test);
    expect_refused(train, bad.words);
  }
  H5Tclose(text);

  for (const std::size_t length : {0, 4, 8, 600, 2000}) {
    SCOPED_TRACE(length);
    write(file("data.h5"), sound.substr(0, length));
    expect_refused(train, {"data.h5: cannot be opened as an HDF5 file"});
  }
  write(file("data.h5"), std::string(100000, '\x5a'));
  expect_refused(train, {"data.h5: cannot be opened as an HDF5 file"});

  // Where the data set's header stands. Job scripts start a failed machine's run again, and not one
  // whose data are damaged.
  for (std::size_t at = 1832; at < std::min<std::size_t>(sound.size(), 2130); at += 24) {
    std::string damaged = sound;
    for (std::size_t i = at; i < at + 8; ++i) damaged[i] = static_cast<char>(~damaged[i]);
    write(file("data.h5"), damaged);
    const Ran ran = hetpipe(train);
    EXPECT_TRUE(ran.code == 0 || ran.code == 2) << at << ": " << ran.code << " " << ran.error;
    fs::remove_all(file("run"));
  }
}

// --- Shards
// ----------------------------------------------------------------------------------------

std::string with_data(const char* command, const std::string& data) {
  std::string arguments = command;
  return arguments.replace(arguments.find("--data data"), 11, "--data " + data);
}

TEST_F(BadData, Shards) {
  ::setenv("HETPIPE_CACHE", "/proc/none", 1);  // every shard is looked through every time
  const auto members = [](int first, int samples, int damaged = -1) {
    std::string tar;
    for (int i = first; i < first + samples; ++i) {
      std::string image = png_of(made_image(8, 8, 1, i));
      if (i == damaged) image.resize(image.size() / 2);
      tar += tar_sample("s/" + std::to_string(i), image, std::to_string(i % 4));
    }
    return tar + tar_end();
  };
  fs::create_directory(file("shards"));
  write(file("shards/train-0.tar"), members(0, 32));
  write(file("shards/train-1.tar"), members(32, 32));
  write(file("shards/val-0.tar"), members(64, 16));
  const std::string options =
      "shards:shards --train-transforms Grayscale --test-transforms Grayscale";
  const Ran sound = hetpipe(with_data(kTrain, options));
  EXPECT_EQ(sound.code, 0) << sound.error;
  fs::remove_all(file("run"));

  const std::string shard = members(32, 32);
  struct Case {
    std::string content;
    std::vector<std::string> words;
  };
  const std::vector<Case> kCases{
      {"", {"shards/train-1.tar: is empty"}},
      {shard.substr(0, 5000), {"shards/train-1.tar: ends", "(it is cut short)"}},
      {std::string(5000, '\x5a'), {"shards/train-1.tar: has no header of a member at byte 0"}},
      {tar_end(), {"shards/train-1.tar: holds no samples"}},
      {tar_member("9.png", "") + tar_end(), {"shards/train-1.tar: sample '9': has no class"}},
      {tar_sample("9", "", "cat") + tar_end(), {"shards/train-1.tar: 9.cls: says 'cat'"}},
  };
  for (const Case& bad : kCases) {
    write(file("shards/train-1.tar"), bad.content);
    expect_refused(with_data(kTrain, options), bad.words);
  }
  write(file("shards/train-1.tar"), shard);
  expect_refused(with_data(kTrain, "shards:shards/x-{1..}.tar"), {"is no pattern of names"});
  expect_refused(with_data(kTrain, "shards:run"), {"neither a folder nor a shard"});

  // Found while it trains: said once, by the rank that reads the images.
  write(file("shards/train-1.tar"), members(32, 32, 40));
  const std::string damaged = "shards/train-1.tar: s/40.png: cannot be read as a PNG image";
  for (const bool skipped : {false, true}) {
    SCOPED_TRACE(skipped);
    const Ran ran = mpirun(3, with_data(kTrainMpi, options + (skipped ? " --skip-damaged 1" : "")));
    EXPECT_EQ(ran.code, skipped ? 0 : 2) << ran.out << ran.error;
    const std::size_t first = ran.error.find(damaged);
    ASSERT_NE(first, std::string::npos) << ran.error;
    EXPECT_EQ(ran.error.find(damaged, first + 1), std::string::npos) << ran.error;
    const std::string who = skipped ? "hetpipe: warning: " : "rank 0 on ";
    EXPECT_NE(ran.error.find(who), std::string::npos) << ran.error;
    fs::remove_all(file("run"));
  }
  ::unsetenv("HETPIPE_CACHE");
}

// A pipe or a device may never end.
TEST_F(BadData, WhatIsNoFileIsNotWaitedFor) {
  const auto fifo = [&](const std::string& name) {
    fs::remove(file(name));
    ASSERT_EQ(::mkfifo(file(name).c_str(), 0600), 0);
  };
  const auto zero = [&](const std::string& name) {
    fs::remove(file(name));
    fs::create_symlink("/dev/zero", file(name));
  };
  const auto refused = [&](const std::string& arguments, const std::string& word) {
    const Ran ran = hetpipe(arguments);
    EXPECT_EQ(ran.code, 2) << ran.error;
    EXPECT_NE(ran.error.find(word), std::string::npos) << ran.error;
  };
  fs::create_directories(file("images/cat"));
  fs::create_directories(file("images/dog"));
  write(file("images/dog/b.jpg"), "");
  const std::string import = "data import --from folder --input images --output x.h5";
  fifo("images/cat/a.jpg");
  refused(import, "images/cat/a.jpg: is a pipe");
  zero("images/cat/a.jpg");
  refused(import, "images/cat/a.jpg: is a device");
  fifo("pipe.txt");
  const std::string text = "train --plan plan.toml --transport threads --output run --data text:";
  refused(text + "pipe.txt", "pipe.txt: is a pipe");
  zero("zero.txt");
  refused(text + "zero.txt", "zero.txt: is a device");
  for (const std::string name : {"cluster.toml", "profile.toml", "data/train-labels-idx1-ubyte"}) {
    const std::string sound = read(file(name));
    fifo(name);
    refused(kTrain, name + ": is a pipe");
    fs::remove(file(name));
    write(file(name), sound);
  }
}

// No link leads what is written out of the run directory.
TEST_F(BadData, LinksAreNotFollowed) {
  write(file("mine"), "");
  fs::create_directories(file("run"));
  fs::create_symlink("../mine", file("run") / "train.log");
  const Ran ran = hetpipe(kTrain);
  EXPECT_EQ(ran.code, 3) << ran.out << ran.error;
  EXPECT_NE(ran.error.find("cannot write the log run/train.log"), std::string::npos) << ran.error;
  EXPECT_EQ(read(file("mine")), "");
}

}  // namespace bad_data_test
}  // namespace hetpipe::test
