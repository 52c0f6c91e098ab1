"""Reference pages: real captures, bundled scenarios, a measured timeline, published runs."""
