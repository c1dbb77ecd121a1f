"""Views of a Report and of the course: console, JSON, JUnit. Nothing here decides anything."""
