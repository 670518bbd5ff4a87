"""Who answers? Matchers over text and over matrices."""
