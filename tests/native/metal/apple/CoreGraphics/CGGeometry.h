#pragma once
struct CGSize {
  double width, height;
};
