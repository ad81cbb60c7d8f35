"""Frames with a caption below, as an animated GIF that stays small."""

from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SECONDS_A_FRAME = 1.0  # when it is taken
SHOWN_MS = 550
LAST_MS = 3500
WIDTH = 900
CAPTION_HEIGHT = 40
COLOURS = 128
BLACK, WHITE = (30, 30, 30), (255, 255, 255)


class Film:
    def __init__(self) -> None:
        self.frames: list[Image.Image] = []
        self.font = ImageFont.load_default(size=20)

    def add(self, png: bytes, caption: str) -> None:
        with Image.open(BytesIO(png)) as taken:
            picture = taken.convert("RGB")
        height = picture.height * WIDTH // picture.width
        frame = Image.new("RGB", (WIDTH, height + CAPTION_HEIGHT), BLACK)
        frame.paste(picture.resize((WIDTH, height), Image.Resampling.LANCZOS))
        draw = ImageDraw.Draw(frame)
        draw.text((16, height + 8), caption, fill=WHITE, font=self.font)
        self.frames.append(frame)

    def save(self, path: Path) -> str:
        """Write it; what was written, in words."""
        first, *others = [self._in_common_colours(frame) for frame in self.frames]
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=[SHOWN_MS] * len(others) + [LAST_MS],
            loop=0,
            optimize=True,
        )
        return f"{path}: {len(self.frames)} frames, {path.stat().st_size // 1024} KiB"

    def _in_common_colours(self, frame: Image.Image) -> Image.Image:
        # One palette for all: else each frame would differ everywhere from the one before.
        return frame.quantize(palette=self._palette(), dither=Image.Dither.NONE)

    def _palette(self) -> Image.Image:
        if not hasattr(self, "_common"):
            some = self.frames[:: max(1, len(self.frames) // 5)]
            sheet = Image.new("RGB", (some[0].width, some[0].height * len(some)))
            for number, frame in enumerate(some):
                sheet.paste(frame, (0, number * frame.height))
            self._common = sheet.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
        return self._common
