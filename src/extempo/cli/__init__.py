"""The command `extempo`: a leaf that nothing imports, so `import extempo` never loads click or rich."""
